/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Changes of packets. All use the checksum helpers, so that checksum offload and
 * segmentation still work in the device that does them. Every function returns 0, or -1
 * if a helper fails.
 */
#ifndef ALIOTH_REWRITE_H
#define ALIOTH_REWRITE_H

#include "parse.h"

#define IPV4_CHECK_OFF (ETH_HLEN + 10)
#define TCP_CHECK_OFF 16
#define UDP_CHECK_OFF 6
#define ICMP_CHECK_OFF 2

enum side { SIDE_SRC, SIDE_DST };

static const __u8 virtual_mac[6] = { 0x02, 0xa1, 0x07, 0x00, 0x00, 0x01 };

/* set_macs writes both Ethernet addresses. */
static __always_inline int set_macs(struct __sk_buff *skb, const __u8 *dst, const __u8 *src)
{
	__u8 macs[12];

	__builtin_memcpy(macs, dst, 6);
	__builtin_memcpy(macs + 6, src, 6);
	return bpf_skb_store_bytes(skb, 0, macs, sizeof(macs), 0) ? -1 : 0;
}

/* addr_offset returns the offset of an address in an IP header that starts at l3. */
static __always_inline __u32 addr_offset(__u32 l3, enum family family, enum side side)
{
	if (family == FAMILY_V4)
		return l3 + (side == SIDE_SRC ? 12 : 16);
	return l3 + (side == SIDE_SRC ? 8 : 24);
}

static __always_inline int store_addr(struct __sk_buff *skb, __u32 off, enum family family, const struct addr *a)
{
	if (family == FAMILY_V4)
		return bpf_skb_store_bytes(skb, off, a->b + 12, 4, 0) ? -1 : 0;
	return bpf_skb_store_bytes(skb, off, a->b, 16, 0) ? -1 : 0;
}

/* l4_check_offset returns the offset of the transport checksum that covers the
 * addresses, and the helper's flags; 0 if the packet has none.
 */
static __always_inline __u32 l4_check_offset(const struct packet *pkt, __u64 *flags)
{
	*flags = 0;
	if (pkt->later)
		return 0;
	switch (pkt->proto) {
	case IPPROTO_TCP:
		return pkt->l4 + TCP_CHECK_OFF;
	case IPPROTO_UDP:
		*flags = BPF_F_MARK_MANGLED_0;
		return pkt->l4 + UDP_CHECK_OFF;
	case IPPROTO_ICMPV6:
		return pkt->family == FAMILY_V6 ? pkt->l4 + ICMP_CHECK_OFF : 0;
	default:
		return 0;
	}
}

/* remember_ends saves the original ends of the packet, before the first change. */
static __always_inline void remember_ends(struct packet *pkt)
{
	if (pkt->translated)
		return;
	pkt->translated = true;
	pkt->came.src = pkt->src;
	pkt->came.dst = pkt->dst;
	pkt->came.sport = pkt->sport;
	pkt->came.dport = pkt->dport;
}

/* set_addr replaces the packet's source or destination address in the IP header and in the
 * transport checksum. The mapped form of two IPv4 addresses has the same difference as their 16
 * bytes.
 */
static __always_inline int set_addr(struct __sk_buff *skb, struct packet *pkt, enum side side, const struct addr *to)
{
	struct addr *from = side == SIDE_SRC ? &pkt->src : &pkt->dst;
	__u64 flags;
	__u32 check = l4_check_offset(pkt, &flags);
	__s64 diff = bpf_csum_diff((__be32 *)from->b, 16, (__be32 *)to->b, 16, 0);

	remember_ends(pkt);
	if (diff < 0)
		return -1;
	if (check && bpf_l4_csum_replace(skb, check, 0, diff, BPF_F_PSEUDO_HDR | flags))
		return -1;
	if (pkt->family == FAMILY_V4 && bpf_l3_csum_replace(skb, IPV4_CHECK_OFF, 0, diff, 0))
		return -1;
	*from = *to;
	return store_addr(skb, addr_offset(ETH_HLEN, pkt->family, side), pkt->family, to);
}

/* set_port replaces a TCP or UDP port of a packet, which must not be a later fragment. */
static __always_inline int set_port(struct __sk_buff *skb, struct packet *pkt, enum side side, __be16 to)
{
	__be16 *from = side == SIDE_SRC ? &pkt->sport : &pkt->dport;
	__u64 flags;
	__u32 check = l4_check_offset(pkt, &flags);

	if (*from == to || !check)
		return 0;
	remember_ends(pkt);
	if (bpf_l4_csum_replace(skb, check, *from, to, flags | sizeof(to)))
		return -1;
	*from = to;
	return bpf_skb_store_bytes(skb, pkt->l4 + (side == SIDE_SRC ? 0 : 2), &to, sizeof(to), 0) ? -1 : 0;
}

/* for_host marks the packet as addressed to this host, whatever its Ethernet
 * destination was, so that a stack accepts it.
 */
static __always_inline void for_host(struct __sk_buff *skb)
{
	if (skb->pkt_type != PACKET_HOST)
		bpf_skb_change_type(skb, PACKET_HOST);
}

/* to_interface sends the packet through the device of an interface: out of it, or for a
 * node's interface back into the stack. Only a received packet can be moved into
 * another network namespace directly; a packet that is being sent leaves by the host
 * end, past alioth_to_pod.
 */
static __always_inline int to_interface(struct __sk_buff *skb, __u32 ifindex, enum interface_flag flags)
{
	for_host(skb);
	if (flags & INTERFACE_NODE)
		return bpf_redirect(ifindex, 0);
	if (!is_being_sent(skb))
		return bpf_redirect_peer(ifindex, 0);
	skb->mark = MARK_DELIVERED;
	return bpf_redirect(ifindex, 0);
}

#endif
