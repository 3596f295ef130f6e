/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* ICMP errors quote the packet they are about. At the shadow door the quoted
 * addresses are translated too, else the receiver finds no flow to which the
 * error belongs. The checksum of the quoted transport header is left alone:
 * a quote is cut short, so nobody can verify it.
 */
#ifndef ALIOTH_EMBEDDED_H
#define ALIOTH_EMBEDDED_H

#include "rewrite.h"

#define ICMP_UNREACHABLE 3
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETER_PROBLEM 12
#define ICMPV6_FIRST_INFORMATIONAL 128
#define ICMP_HLEN 8

/* The quoted packet, as far as it is needed to translate it. */
struct quote {
	struct addr src;
	struct addr dst;
	__u32 l3;
	__u32 l4; /* 0 when no ports are quoted */
	__be16 sport;
	__be16 dport;
	__u8 proto;
};

static __always_inline bool is_icmp_error(const struct packet *pkt)
{
	if (pkt->family == FAMILY_V6)
		return pkt->proto == IPPROTO_ICMPV6 && pkt->icmp_type < ICMPV6_FIRST_INFORMATIONAL;
	return pkt->proto == IPPROTO_ICMP &&
	       (pkt->icmp_type == ICMP_UNREACHABLE || pkt->icmp_type == ICMP_TIME_EXCEEDED ||
		pkt->icmp_type == ICMP_PARAMETER_PROBLEM);
}

/* read_quote returns 0, or -1 when the error quotes no whole IP header. */
static __always_inline int read_quote(struct __sk_buff *skb, const struct packet *pkt, struct quote *q)
{
	__be16 ports[2];

	q->l3 = pkt->l4 + ICMP_HLEN;
	q->l4 = 0;
	if (pkt->family == FAMILY_V4) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, q->l3, &ip, sizeof(ip)))
			return -1;
		addr_from_v4(&q->src, ip.saddr);
		addr_from_v4(&q->dst, ip.daddr);
		q->proto = ip.protocol;
		if (!(ip.frag_off & bpf_htons(IPV4_FRAGMENT_OFFSET)))
			q->l4 = q->l3 + ip.ihl * 4;
	} else {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, q->l3, &ip, sizeof(ip)))
			return -1;
		__builtin_memcpy(q->src.b, ip.saddr, 16);
		__builtin_memcpy(q->dst.b, ip.daddr, 16);
		q->proto = ip.nexthdr;
		q->l4 = q->l3 + sizeof(ip);
	}
	if ((q->proto != IPPROTO_TCP && q->proto != IPPROTO_UDP) || !q->l4 ||
	    bpf_skb_load_bytes(skb, q->l4, ports, sizeof(ports))) {
		q->l4 = 0;
		return 0;
	}
	q->sport = ports[0];
	q->dport = ports[1];
	return 0;
}

/* quote_addr replaces an address of the quoted header. In IPv4 the change of
 * the quoted header's own checksum cancels that of the address, so the ICMP
 * checksum holds; in IPv6 it does not.
 */
static __always_inline int quote_addr(struct __sk_buff *skb, struct packet *pkt, struct quote *q, enum side side,
				      const struct addr *to)
{
	struct addr *from = side == SIDE_SRC ? &q->src : &q->dst;
	__s64 diff = bpf_csum_diff((__be32 *)from->b, 16, (__be32 *)to->b, 16, 0);
	int err;

	if (diff < 0)
		return -1;
	if (pkt->family == FAMILY_V4)
		err = bpf_l3_csum_replace(skb, q->l3 + 10, 0, diff, 0);
	else
		err = bpf_l4_csum_replace(skb, pkt->l4 + ICMP_CHECK_OFF, 0, diff, 0);
	if (err)
		return -1;
	*from = *to;
	return store_addr(skb, addr_offset(q->l3, pkt->family, side), pkt->family, to);
}

/* quote_port replaces a quoted port. */
static __always_inline int quote_port(struct __sk_buff *skb, struct packet *pkt, struct quote *q, enum side side,
				      __be16 to)
{
	__be16 from = side == SIDE_SRC ? q->sport : q->dport;

	if (from == to)
		return 0;
	if (bpf_l4_csum_replace(skb, pkt->l4 + ICMP_CHECK_OFF, from, to, sizeof(to)))
		return -1;
	return bpf_skb_store_bytes(skb, q->l4 + (side == SIDE_SRC ? 0 : 2), &to, sizeof(to), 0) ? -1 : 0;
}

#endif
