/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* ICMP errors for packets that exceed the MTU of the path to another node. The sender
 * gets an error, as from a router (RFC 1191, RFC 8201), if the packet must not be
 * fragmented. Otherwise the tunnel's device fragments the outer packet.
 */
#ifndef ALIOTH_TOOBIG_H
#define ALIOTH_TOOBIG_H

#include "checksum.h"
#include "embedded.h"
#include "outer.h"
#include "share.h"

#define ICMP_FRAGMENTATION_NEEDED 4
#define ICMPV6_PACKET_TOO_BIG 2

/* The MTU that every link has for IPv6 (RFC 8200 section 5). A sender does not go below
 * it, so shorter packets have to arrive.
 */
#define IPV6_MIN_MTU 1280

/* As much of the packet as fits an error of 576 bytes (RFC 1812 section
 * 4.3.2.3) or of IPV6_MIN_MTU (RFC 4443 section 3.2).
 */
#define QUOTE_MAX_V4 (576 - 20 - ICMP_HLEN)
#define QUOTE_MAX_V6 (IPV6_MIN_MTU - 40 - ICMP_HLEN)
#define QUOTE_CHUNK 64

/* Limit per interface, and per node that sends over this one: an error per ms, and up to 100 at once. */
#define ICMP_INTERVAL_NS 1000000ULL
#define ICMP_BURST_NS (100 * ICMP_INTERVAL_NS)

#define ICMP_TTL 64
#define TOS_NETWORK_CONTROL 0xc0 /* RFC 1812 section 4.3.2.5 */

struct icmp_error {
	__u8 type;
	__u8 code;
	__u16 check;
	__be32 mtu;
};

struct error_v4 {
	struct ethhdr eth;
	struct iphdr ip;
	struct icmp_error icmp;
} __attribute__((packed));

struct error_v6 {
	struct ethhdr eth;
	struct ipv6hdr ip;
	struct icmp_error icmp;
} __attribute__((packed));

/* too_big reports whether a packet that exceeds the MTU is refused. Over IPv6 no device fragments
 * forwarded packets, and outer_fragment.h only fragments packets that no sender can make smaller.
 */
static __always_inline bool too_big(struct __sk_buff *skb, const struct packet *pkt, const struct way *way)
{
	if (way->over_v6)
		return true;
	if (pkt->family == FAMILY_V6)
		return inner_len(skb, pkt) > ETH_HLEN + IPV6_MIN_MTU;
	return pkt->whole;
}

/* may_tell_node applies the rate limit of errors to pkt->next, a node that sends over this
 * one. Linux 6.1 takes no key of a map from the argument of a global function.
 */
__noinline bool may_tell_node(const struct packet *pkt)
{
	struct addr node;

	if (!pkt)
		return false;
	node = pkt->next;
	return take_share(&alioth_role_gate, &node, bpf_ktime_get_ns(), ICMP_INTERVAL_NS, ICMP_BURST_NS);
}

/* may_tell applies the rate limit of errors to an interface. */
static __always_inline bool may_tell(__u32 ifindex)
{
	return take_share(&alioth_icmp_gate, &ifindex, bpf_ktime_get_ns(), ICMP_INTERVAL_NS, ICMP_BURST_NS);
}

/* sum_quote adds up len bytes of the IP packet. */
static __noinline __u32 sum_quote(struct __sk_buff *skb, __u32 len)
{
	__u32 sum = 0;

	for (__u32 off = 0; off < QUOTE_MAX_V6; off += QUOTE_CHUNK) {
		__u8 chunk[QUOTE_CHUNK] = {};
		__u32 last = len - off - 1;

		if (off >= len)
			break;
		if (last >= QUOTE_CHUNK)
			last = QUOTE_CHUNK - 1;
		/* The verifier needs both bounds of the length. Before Linux 6.8 it
		 * derives none from a comparison with 0.
		 */
		barrier_var(last);
		if (last >= QUOTE_CHUNK || bpf_skb_load_bytes(skb, ETH_HLEN + off, chunk, last + 1))
			break;
		sum = bpf_csum_diff(0, 0, (__be32 *)chunk, sizeof(chunk), sum);
	}
	return sum;
}

/* Type and content of an error. */
struct complaint {
	__u8 type;
	__u8 code;
	__u16 quote; /* bytes of the packet that are quoted */
	__u32 mtu; /* 0: the error has none */
	__u32 ifindex; /* of the sender's interface; 0: the packet is of the node pkt->next */
};

static __always_inline int write_error_v4(struct __sk_buff *skb, const struct packet *pkt, const struct addr *gateway,
					  const struct complaint *c)
{
	struct error_v4 e = {
		.eth.h_proto = bpf_htons(ETH_P_IP),
		.ip = {
			.version = 4,
			.ihl = sizeof(e.ip) / 4,
			.tos = TOS_NETWORK_CONTROL,
			.tot_len = bpf_htons(sizeof(e.ip) + sizeof(e.icmp) + c->quote),
			.frag_off = bpf_htons(IPV4_DONT_FRAGMENT),
			.ttl = ICMP_TTL,
			.protocol = IPPROTO_ICMP,
			.saddr = addr_v4(gateway),
			.daddr = addr_v4(&pkt->src),
		},
		.icmp = { .type = c->type, .code = c->code, .mtu = bpf_htonl(c->mtu) },
	};
	struct icmp_error icmp = e.icmp;
	struct iphdr ip = e.ip;

	e.ip.check = ipv4_check(&ip);
	e.icmp.check = fold_checksum(
		(__u64)bpf_csum_diff(0, 0, (__be32 *)&icmp, sizeof(icmp), sum_quote(skb, c->quote)) & 0xffffffff);
	__builtin_memcpy(e.eth.h_dest, pkt->eth_src, 6);
	__builtin_memcpy(e.eth.h_source, virtual_mac, 6);
	if (bpf_skb_adjust_room(skb, sizeof(e.ip) + sizeof(e.icmp), BPF_ADJ_ROOM_MAC, 0))
		return -1;
	return bpf_skb_store_bytes(skb, 0, &e, sizeof(e), 0) ? -1 : 0;
}

static __always_inline int write_error_v6(struct __sk_buff *skb, const struct packet *pkt, const struct addr *gateway,
					  const struct complaint *c)
{
	struct error_v6 e = {
		.eth.h_proto = bpf_htons(ETH_P_IPV6),
		.ip = {
			.version = 6,
			.payload_len = bpf_htons(sizeof(e.icmp) + c->quote),
			.nexthdr = IPPROTO_ICMPV6,
			.hop_limit = ICMP_TTL,
		},
		.icmp = { .type = c->type, .code = c->code, .mtu = bpf_htonl(c->mtu) },
	};
	struct pseudo_header pseudo = {
		.src = *gateway,
		.dst = pkt->src,
		.len = bpf_htonl(sizeof(e.icmp) + c->quote),
		.proto = bpf_htonl(IPPROTO_ICMPV6),
	};
	struct icmp_error icmp = e.icmp;
	__u32 sum = sum_quote(skb, c->quote);

	sum = bpf_csum_diff(0, 0, (__be32 *)&pseudo, sizeof(pseudo), sum);
	sum = bpf_csum_diff(0, 0, (__be32 *)&icmp, sizeof(icmp), sum);
	e.icmp.check = fold_checksum(sum);
	__builtin_memcpy(e.ip.saddr, gateway, 16);
	__builtin_memcpy(e.ip.daddr, &pkt->src, 16);
	__builtin_memcpy(e.eth.h_dest, pkt->eth_src, 6);
	__builtin_memcpy(e.eth.h_source, virtual_mac, 6);
	if (bpf_skb_adjust_room(skb, sizeof(e.ip) + sizeof(e.icmp), BPF_ADJ_ROOM_MAC, 0))
		return -1;
	return bpf_skb_store_bytes(skb, 0, &e, sizeof(e), 0) ? -1 : 0;
}

/* about_error reports whether ICMP errors about the packet are forbidden: it is an
 * error itself, or a fragment without its transport header (RFC 1122 section 3.2.2, RFC
 * 4443 section 2.4).
 */
static __always_inline bool about_error(struct __sk_buff *skb, struct packet *pkt)
{
	if (pkt->later)
		return true;
	if (pkt->proto != IPPROTO_ICMP && pkt->proto != IPPROTO_ICMPV6)
		return false;
	return parse_l4(skb, pkt) || is_icmp_error(pkt);
}

enum telling { TOLD, NOT_TOLD, HALF_TOLD };

/* tell turns the packet into an ICMP error for its sender from a gateway, if an error is
 * allowed. The caller sends it. After HALF_TOLD the packet must be dropped.
 */
__noinline enum telling tell(struct __sk_buff *skb, struct packet *pkt, const struct addr *gateway,
			     const struct complaint *said)
{
	struct complaint c;
	bool v4;
	__u32 quote, most;

	if (!pkt || !gateway || !said)
		return NOT_TOLD;
	v4 = pkt->family == FAMILY_V4;
	quote = skb->len - ETH_HLEN;
	most = v4 ? QUOTE_MAX_V4 : QUOTE_MAX_V6;
	if (quote > most)
		quote = most;
	if (about_error(skb, pkt) || addr_is_zero(gateway))
		return NOT_TOLD;
	c = *said;
	if (c.ifindex ? !may_tell(c.ifindex) : !may_tell_node(pkt))
		return NOT_TOLD;
	/* This also merges a packet that was to be cut into segments. */
	if (bpf_skb_change_tail(skb, ETH_HLEN + quote, 0))
		return NOT_TOLD;
	c.quote = quote;
	if (v4 ? write_error_v4(skb, pkt, gateway, &c) : write_error_v6(skb, pkt, gateway, &c))
		return HALF_TOLD;
	return TOLD;
}

/* tell_from does so for the packet of an interface, and sends the error to it. */
static __always_inline enum telling tell_from(struct __sk_buff *skb, struct packet *pkt, const struct interface *from,
					      struct complaint *c)
{
	enum telling told;

	c->ifindex = pkt->ifindex;
	told = tell(skb, pkt, pkt->family == FAMILY_V4 ? &from->gateway[FAMILY_V4] : &from->gateway[FAMILY_V6], c);
	if (told == TOLD)
		pkt->action = to_interface(skb, pkt->ifindex, from->flags);
	return told;
}

/* name_limit fills an error with the limit of the packet. It returns false for a limit that
 * the sender keeps to already, which would not help it.
 */
static __always_inline bool name_limit(struct __sk_buff *skb, const struct packet *pkt, struct complaint *c)
{
	c->type = ICMP_UNREACHABLE;
	c->code = ICMP_FRAGMENTATION_NEEDED;
	c->mtu = pkt->limit;
	if (pkt->family == FAMILY_V6) {
		c->type = ICMPV6_PACKET_TOO_BIG;
		c->code = 0;
		if (c->mtu < IPV6_MIN_MTU)
			c->mtu = IPV6_MIN_MTU;
	}
	return inner_len(skb, pkt) > ETH_HLEN + c->mtu;
}

static __always_inline enum reason told_too_big(enum telling told)
{
	switch (told) {
	case TOLD:
		return REPLIED_TOO_BIG;
	case HALF_TOLD:
		return DROP_REWRITE_FAILED;
	default:
		return DROP_TOO_BIG;
	}
}

/* tell_too_big sends the limit of the packet to its sender, an interface of this node. */
static __always_inline enum reason tell_too_big(struct __sk_buff *skb, struct packet *pkt, const struct interface *from)
{
	struct complaint c = {};

	if (!name_limit(skb, pkt, &c))
		return DROP_TOO_BIG;
	/* The sender knows its original packet only: undo the translation. */
	if (pkt->translated &&
	    (set_port(skb, pkt, SIDE_DST, pkt->came.dport) || set_addr(skb, pkt, SIDE_DST, &pkt->came.dst)))
		return DROP_REWRITE_FAILED;
	return told_too_big(tell_from(skb, pkt, from, &c));
}

#endif
