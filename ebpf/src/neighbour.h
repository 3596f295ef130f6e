/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* ARP (RFC 826) and neighbour discovery (RFC 4861): for a pod, every address but its
 * own has the one virtual MAC. Packets of both protocols are never forwarded.
 */
#ifndef ALIOTH_NEIGHBOUR_H
#define ALIOTH_NEIGHBOUR_H

#include "checksum.h"
#include "deliver.h"

#define ARP_REQUEST 1
#define ARP_REPLY 2

#define ND_ROUTER_SOLICITATION 133
#define ND_NEIGHBOUR_SOLICITATION 135
#define ND_NEIGHBOUR_ADVERTISEMENT 136
#define ND_REDIRECT 137
#define MLD_QUERY 130
#define MLD_DONE 132
#define MLD2_REPORT 143

#define NA_ROUTER 0x80
#define NA_SOLICITED 0x40
#define NA_OVERRIDE 0x20
#define ND_OPTION_TARGET_LLADDR 2

struct arp_frame {
	struct ethhdr eth;
	__be16 hardware;
	__be16 protocol;
	__u8 hardware_len;
	__u8 protocol_len;
	__be16 operation;
	__u8 sender_mac[6];
	__u8 sender_ip[4];
	__u8 target_mac[6];
	__u8 target_ip[4];
} __attribute__((packed));

struct nd_message {
	__u8 type;
	__u8 code;
	__u16 check;
	__u8 flags;
	__u8 reserved[3];
	struct addr target;
	__u8 option_type; /* in the answer only */
	__u8 option_len;
	__u8 option_mac[6];
} __attribute__((packed, aligned(4)));

#define ND_SOLICITATION_LEN 24

static __always_inline enum reason check_arp(const struct arp_frame *arp, const struct interface *from)
{
	__be32 own = addr_v4(&from->ip[FAMILY_V4]), sender, target;

	__builtin_memcpy(&sender, arp->sender_ip, 4);
	__builtin_memcpy(&target, arp->target_ip, 4);
	if (arp->hardware != bpf_htons(1) || arp->protocol != bpf_htons(ETH_P_IP) || arp->hardware_len != 6 ||
	    arp->protocol_len != 4)
		return DROP_BAD_HEADER;
	if (!mac_equal(arp->sender_mac, from->mac))
		return DROP_SPOOFED_MAC;
	if (!own || (sender && sender != own))
		return DROP_SPOOFED_IP;
	if (arp->operation != bpf_htons(ARP_REQUEST))
		return DROP_ARP_OTHER;
	/* A probe (RFC 5227) asks whether another host has the address. The claim is
	 * exclusive, so no host has it, and the probe gets no reply.
	 */
	return target == own || !sender ? DROP_ARP_OWN : UNDECIDED;
}

/* reply_arp turns a request into its reply: the target has the MAC mac. */
static __always_inline int reply_arp(struct __sk_buff *skb, struct arp_frame *arp, const __u8 *mac)
{
	__u8 target[4];

	__builtin_memcpy(target, arp->target_ip, 4);
	__builtin_memcpy(arp->eth.h_dest, arp->sender_mac, 6);
	__builtin_memcpy(arp->eth.h_source, mac, 6);
	arp->operation = bpf_htons(ARP_REPLY);
	__builtin_memcpy(arp->target_mac, arp->sender_mac, 6);
	__builtin_memcpy(arp->target_ip, arp->sender_ip, 4);
	__builtin_memcpy(arp->sender_mac, mac, 6);
	__builtin_memcpy(arp->sender_ip, target, 4);
	return bpf_skb_store_bytes(skb, 0, arp, sizeof(*arp), 0) ? -1 : 0;
}

static __always_inline enum reason answer_arp(struct __sk_buff *skb, struct packet *pkt, const struct interface *from)
{
	struct arp_frame arp;
	enum reason reason;

	if (bpf_skb_load_bytes(skb, 0, &arp, sizeof(arp)))
		return DROP_BAD_HEADER;
	reason = check_arp(&arp, from);
	if (reason)
		return reason;
	if (reply_arp(skb, &arp, virtual_mac))
		return DROP_REWRITE_FAILED;
	pkt->action = to_interface(skb, skb->ifindex, from->flags);
	return REPLIED;
}

/* own_link_local makes the interface's EUI-64 address, RFC 4291 appendix A. */
static __always_inline void own_link_local(struct addr *a, const struct interface *from)
{
	__builtin_memset(a, 0, sizeof(*a));
	a->b[0] = 0xfe;
	a->b[1] = 0x80;
	a->b[8] = from->mac[0] ^ 2;
	a->b[9] = from->mac[1];
	a->b[10] = from->mac[2];
	a->b[11] = 0xff;
	a->b[12] = 0xfe;
	a->b[13] = from->mac[3];
	a->b[14] = from->mac[4];
	a->b[15] = from->mac[5];
}

static __always_inline enum reason check_solicitation(const struct packet *pkt, const struct nd_message *ns,
						      const struct interface *from, __u8 hop_limit)
{
	const struct addr *own = &from->ip[FAMILY_V6];
	struct addr link_local;

	own_link_local(&link_local, from);
	if (hop_limit != 255 || ns->code || addr_is_multicast(&ns->target, FAMILY_V6))
		return DROP_BAD_HEADER;
	/* Duplicate address detection: no reply, as with ARP. */
	if (addr_is_zero(&pkt->src))
		return DROP_ND_OWN;
	if (addr_is_zero(own) || (!addr_equal(&pkt->src, own) && !addr_equal(&pkt->src, &link_local)))
		return DROP_SPOOFED_IP;
	if (addr_equal(&ns->target, own) || addr_equal(&ns->target, &link_local))
		return DROP_ND_OWN;
	return UNDECIDED;
}

/* The headers before the reply's message. */
struct nd_answer {
	struct ethhdr eth;
	struct ipv6hdr ip;
} __attribute__((packed));

/* advertise replaces a solicitation by its reply: the target has the MAC mac. */
static __always_inline int advertise(struct __sk_buff *skb, const struct addr *asker, const __u8 *asker_mac,
				     const struct addr *target, const __u8 *mac, __u8 flags)
{
	struct pseudo_header pseudo = {
		.src = *target,
		.dst = *asker,
		.len = bpf_htonl(sizeof(struct nd_message)),
		.proto = bpf_htonl(IPPROTO_ICMPV6),
	};
	struct nd_message na = {
		.type = ND_NEIGHBOUR_ADVERTISEMENT,
		.flags = flags,
		.target = *target,
		.option_type = ND_OPTION_TARGET_LLADDR,
		.option_len = 1,
	};
	struct nd_answer answer = {
		.eth.h_proto = bpf_htons(ETH_P_IPV6),
		.ip = {
			.version = 6,
			.payload_len = bpf_htons(sizeof(struct nd_message)),
			.nexthdr = IPPROTO_ICMPV6,
			.hop_limit = 255,
		},
	};
	__s64 sum;

	__builtin_memcpy(na.option_mac, mac, 6);
	sum = bpf_csum_diff(0, 0, (__be32 *)&pseudo, sizeof(pseudo), 0);
	sum = bpf_csum_diff(0, 0, (__be32 *)&na, sizeof(na), sum);
	na.check = fold_checksum(sum);
	__builtin_memcpy(answer.eth.h_dest, asker_mac, 6);
	__builtin_memcpy(answer.eth.h_source, mac, 6);
	__builtin_memcpy(answer.ip.saddr, target, 16);
	__builtin_memcpy(answer.ip.daddr, asker, 16);
	if (skb->len != sizeof(answer) + sizeof(na) && bpf_skb_change_tail(skb, sizeof(answer) + sizeof(na), 0))
		return -1;
	if (bpf_skb_store_bytes(skb, 0, &answer, sizeof(answer), 0))
		return -1;
	return bpf_skb_store_bytes(skb, sizeof(answer), &na, sizeof(na), 0) ? -1 : 0;
}

/* answer_solicitation has a stack frame of its own, which is large. */
__noinline enum reason answer_solicitation(struct __sk_buff *skb, struct packet *pkt, const struct interface *from)
{
	struct nd_message ns = {};
	enum reason reason;
	struct addr target;
	__u8 hop_limit;

	if (!pkt || !from)
		return DROP_REWRITE_FAILED;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + 7, &hop_limit, 1) ||
	    bpf_skb_load_bytes(skb, pkt->l4, &ns, ND_SOLICITATION_LEN))
		return DROP_BAD_HEADER;
	reason = check_solicitation(pkt, &ns, from, hop_limit);
	if (reason)
		return reason;
	target = ns.target;
	if (advertise(skb, &pkt->src, from->mac, &target, virtual_mac, NA_ROUTER | NA_SOLICITED | NA_OVERRIDE))
		return DROP_REWRITE_FAILED;
	pkt->action = to_interface(skb, skb->ifindex, from->flags);
	return REPLIED;
}

static __always_inline bool is_announced(const struct addr *ip)
{
	struct addr key = *ip;

	return bpf_map_lookup_elem(&alioth_announced, &key);
}

/* own_mac copies the MAC of the underlay device. */
static __always_inline void own_mac(__u8 *mac)
{
	for (int i = 0; i < 6; i++)
		mac[i] = alioth_config.underlay_mac[i];
}

/* announce_v4 replies to a request or a probe (RFC 5227) for an announced address, and
 * reports whether it did.
 */
static __always_inline bool announce_v4(struct __sk_buff *skb)
{
	struct arp_frame arp;
	__be32 ip, asker;
	struct addr target;
	__u8 mac[6];

	if (bpf_skb_load_bytes(skb, 0, &arp, sizeof(arp)) || arp.eth.h_proto != bpf_htons(ETH_P_ARP) ||
	    arp.hardware != bpf_htons(1) || arp.protocol != bpf_htons(ETH_P_IP) || arp.hardware_len != 6 ||
	    arp.protocol_len != 4 || arp.operation != bpf_htons(ARP_REQUEST))
		return false;
	__builtin_memcpy(&ip, arp.target_ip, 4);
	__builtin_memcpy(&asker, arp.sender_ip, 4);
	addr_from_v4(&target, ip);
	/* A host that announces the address itself needs no reply. */
	if (ip == asker || !is_announced(&target))
		return false;
	own_mac(mac);
	return !reply_arp(skb, &arp, mac);
}

/* announce_v6 does the same for a solicitation. Duplicate address detection gets no
 * reply: a claim has one holder only.
 */
static __always_inline bool announce_v6(struct __sk_buff *skb)
{
	struct addr asker, target;
	struct nd_message ns = {};
	struct nd_answer asked;
	__u8 mac[6];

	if (bpf_skb_load_bytes(skb, 0, &asked, sizeof(asked)) || asked.eth.h_proto != bpf_htons(ETH_P_IPV6) ||
	    asked.ip.nexthdr != IPPROTO_ICMPV6 || asked.ip.hop_limit != 255 ||
	    bpf_skb_load_bytes(skb, sizeof(asked), &ns, ND_SOLICITATION_LEN) || ns.type != ND_NEIGHBOUR_SOLICITATION ||
	    ns.code)
		return false;
	__builtin_memcpy(&asker, asked.ip.saddr, 16);
	target = ns.target;
	if (addr_is_zero(&asker) || !is_announced(&target))
		return false;
	own_mac(mac);
	return !advertise(skb, &asker, asked.eth.h_source, &target, mac, NA_SOLICITED | NA_OVERRIDE);
}

/* announce replies on the node's network to requests for an address that the node
 * announces. It has a large stack frame, so it is a function of its own.
 */
__noinline int announce(struct __sk_buff *skb)
{
	bool answered = skb->protocol == bpf_htons(ETH_P_ARP) ? announce_v4(skb) : announce_v6(skb);

	return answered ? bpf_redirect(skb->ifindex, 0) : TCX_NEXT;
}

/* link_protocol checks an ICMPv6 packet, which must be walked, for link-local control
 * messages. It returns the reason to drop it, REPLIED for a solicitation that needs a
 * reply, or UNDECIDED for a packet that may be forwarded.
 */
static __always_inline enum reason link_protocol(struct __sk_buff *skb, const struct packet *pkt)
{
	__u8 type;

	if (pkt->proto != IPPROTO_ICMPV6 || pkt->later)
		return UNDECIDED;
	if (!within(pkt, pkt->l4, 1) || bpf_skb_load_bytes(skb, pkt->l4, &type, 1))
		return DROP_BAD_HEADER;
	if (type == ND_NEIGHBOUR_SOLICITATION)
		return pkt->fragment ? DROP_ND_OTHER : REPLIED;
	if (type == ND_ROUTER_SOLICITATION)
		return DROP_ROUTER_SOLICITATION;
	if (type > ND_ROUTER_SOLICITATION && type <= ND_REDIRECT)
		return DROP_ND_OTHER;
	if ((type >= MLD_QUERY && type <= MLD_DONE) || type == MLD2_REPORT)
		return DROP_MLD;
	return UNDECIDED;
}

#endif
