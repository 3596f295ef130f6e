/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* ICMP errors quote the packet that they are about. Where a packet is translated
 * between VPC address and shadow address, the quoted addresses are translated too,
 * otherwise the receiver finds no flow for the error. The checksum of the quoted
 * transport header is not changed: a quote is cut short, so no receiver can verify it.
 */
#ifndef ALIOTH_EMBEDDED_H
#define ALIOTH_EMBEDDED_H

#include "rewrite.h"

#define ICMP_UNREACHABLE 3
#define ICMP_SOURCE_QUENCH 4
#define ICMP_REDIRECT 5
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETER_PROBLEM 12
#define ICMPV6_FIRST_INFORMATIONAL 128
#define ICMP_HLEN 8

/* The quoted packet, as far as the translation needs it. */
struct quote {
	struct addr src;
	struct addr dst;
	__u32 l3;
	__u32 l4; /* 0 if the quote is too short to identify the flow */
	__be16 sport;
	__be16 dport;
	__u8 proto;
};

/* is_icmp_error reports whether a message quotes a packet. Connection tracking finds the flow by
 * the quoted packet (RFC 792, RFC 4443 section 2.1).
 */
static __always_inline bool is_icmp_error(const struct packet *pkt)
{
	if (pkt->family == FAMILY_V6)
		return pkt->proto == IPPROTO_ICMPV6 && pkt->icmp_type < ICMPV6_FIRST_INFORMATIONAL;
	return pkt->proto == IPPROTO_ICMP &&
	       ((pkt->icmp_type >= ICMP_UNREACHABLE && pkt->icmp_type <= ICMP_REDIRECT) ||
		pkt->icmp_type == ICMP_TIME_EXCEEDED || pkt->icmp_type == ICMP_PARAMETER_PROBLEM);
}

/* read_quote_v4 reads the quoted header; -1 if the quote has no whole header. */
static __always_inline int read_quote_v4(struct __sk_buff *skb, const struct packet *pkt, struct quote *q)
{
	struct iphdr ip;

	if (!within(pkt, q->l3, sizeof(ip)) || bpf_skb_load_bytes(skb, q->l3, &ip, sizeof(ip)) || ip.version != 4 ||
	    ip.ihl < 5)
		return -1;
	addr_from_v4(&q->src, ip.saddr);
	addr_from_v4(&q->dst, ip.daddr);
	q->proto = ip.protocol;
	if (!(ip.frag_off & bpf_htons(IPV4_FRAGMENT_OFFSET)))
		q->l4 = q->l3 + ip.ihl * 4;
	return 0;
}

/* walk_quote moves past the quoted extension headers; 0 if the transport header is not
 * quoted, or not in this packet.
 */
static __always_inline __u32 walk_quote(struct __sk_buff *skb, const struct packet *pkt, struct quote *q, __u32 at)
{
	__u8 hdr[4];

	for (int i = 0; i < MAX_EXTENSION_HEADERS && is_extension(q->proto); i++) {
		if (!within(pkt, at, EXTENSION_LEAST) || bpf_skb_load_bytes(skb, at, hdr, sizeof(hdr)))
			return 0;
		if (q->proto == NEXTHDR_FRAGMENT && ((hdr[2] << 8 | hdr[3]) & IPV6_FRAGMENT_OFFSET))
			return 0;
		at += extension_len(q->proto, hdr);
		q->proto = hdr[0];
	}
	return is_extension(q->proto) ? 0 : at;
}

static __always_inline int read_quote_v6(struct __sk_buff *skb, const struct packet *pkt, struct quote *q)
{
	__u8 head[8]; /* the whole header would not fit the stack of the judgement of policies */

	if (!within(pkt, q->l3, sizeof(struct ipv6hdr)) || bpf_skb_load_bytes(skb, q->l3, head, sizeof(head)) ||
	    head[0] >> 4 != 6 || bpf_skb_load_bytes(skb, q->l3 + 8, &q->src, sizeof(q->src)) ||
	    bpf_skb_load_bytes(skb, q->l3 + 24, &q->dst, sizeof(q->dst)))
		return -1;
	q->proto = head[6];
	q->l4 = walk_quote(skb, pkt, q, q->l3 + sizeof(struct ipv6hdr));
	return 0;
}

/* read_quote returns 0, or -1 if the error quotes no whole IP header. A function of its
 * own, so that the verifier checks it once.
 */
__noinline int read_quote(struct __sk_buff *skb, const struct packet *pkt, struct quote *q)
{
	__be16 ports[2] = {};

	if (!pkt || !q)
		return -1;
	q->l3 = pkt->l4 + ICMP_HLEN;
	q->l4 = 0;
	q->sport = 0;
	q->dport = 0;
	if (pkt->family == FAMILY_V4 ? read_quote_v4(skb, pkt, q) : read_quote_v6(skb, pkt, q))
		return -1;
	if (!q->l4)
		return 0;
	switch (q->proto) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		if (within(pkt, q->l4, sizeof(ports)) && !bpf_skb_load_bytes(skb, q->l4, ports, sizeof(ports)))
			break;
		q->l4 = 0;
		return 0;
	case IPPROTO_ICMP: /* type, code and id identify the flow */
	case IPPROTO_ICMPV6:
		if (!within(pkt, q->l4, ICMP_HLEN))
			q->l4 = 0;
		return 0;
	default: /* not translated to shadow addresses */
		q->l4 = 0;
		return 0;
	}
	q->sport = ports[0];
	q->dport = ports[1];
	return 0;
}

/* quote_addr replaces an address of the quoted header. In IPv4 the change of the quoted header's
 * own checksum cancels the change of the address, so the ICMP checksum holds; in IPv6 it does
 * not.
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
