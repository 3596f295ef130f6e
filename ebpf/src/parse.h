/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Parsing of packets. Ethernet and IP headers are read directly from the linear part of
 * the packet, which is extended only if it is too short. Transport headers are needed
 * at the translation to shadow addresses and Services only, and are copied.
 */
#ifndef ALIOTH_PARSE_H
#define ALIOTH_PARSE_H

#include "types_packet.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ETH_P_IP 0x0800
#define ETH_P_ARP 0x0806
#define ETH_P_8021Q 0x8100
#define ETH_P_IPV6 0x86dd
#define ETH_P_8021AD 0x88a8
#define ETH_HLEN 14

#define IPPROTO_ICMP 1
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_ICMPV6 58
#define IPPROTO_SCTP 132

/* IPv6 extension headers, RFC 7045 section 4: the headers that all parts of Linux skip. Linux
 * handles Mobility as a transport, and connection tracking skips an Authentication Header where
 * packet filters do not.
 */
#define NEXTHDR_HOP 0
#define NEXTHDR_ROUTING 43
#define NEXTHDR_FRAGMENT 44
#define NEXTHDR_DEST 60
#define MAX_EXTENSION_HEADERS 6
#define EXTENSION_LEAST 8 /* bytes that each of them has */

#define IPV4_DONT_FRAGMENT 0x4000
#define IPV4_MORE_FRAGMENTS 0x2000
#define IPV4_FRAGMENT_OFFSET 0x1fff
#define IPV6_MORE_FRAGMENTS 0x0001
#define IPV6_FRAGMENT_OFFSET 0xfff8

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* The parsed packet, and the state of the decision about it. */
struct packet {
	struct addr src;
	struct addr dst;
	struct addr next; /* the node that it is sent on to, with class and eth_dst */
	__u8 eth_dst[6];
	__u8 eth_src[6];
	__u32 vni;
	__u32 ifindex; /* of the interface that owns the flow: the program's device, or the receiver's */
	__u32 origin; /* the sender's identity, see class.h */
	/* Offsets into the packet and lengths; words would not fit the stack on Linux 6.1. */
	__u16 l4; /* of the transport header, once walked */
	__u16 fragment_header; /* IPv6: of the fragment header, if there is one, once walked */
	__u16 end; /* by the IP header's length; the bytes behind it are not of the packet */
	__u16 outer; /* bytes of outer headers that were pushed */
	__u16 limit; /* with DROP_TOO_BIG: bytes that fit the path to another node */
	__be16 ethertype;
	__be16 sport;
	__be16 dport;
	__u8 family; /* enum family */
	__u8 direction; /* enum direction */
	__u8 proto; /* IPv6: of the first header until walk_extensions() */
	__u8 tcp_flags;
	__u8 icmp_type;
	bool fragment; /* any part of a fragmented datagram */
	bool later; /* a fragment without a transport header */
	bool options; /* IPv4 options or an IPv6 routing header */
	bool whole; /* it must not be fragmented on the path */
	bool translated; /* src, dst or a port was changed */
	__u8 class; /* enum packet_class */
	__u8 action; /* of a forwarded packet, from the redirect helper: a verdict */
	/* The original ends of a translated packet; otherwise uninitialized. */
	struct tuple came;
};

/* see initializes a packet's record. */
static __always_inline void see(struct __sk_buff *skb, struct packet *pkt, enum direction direction)
{
	__builtin_memset(pkt, 0, offsetof(struct packet, came));
	pkt->direction = direction;
	pkt->ifindex = skb->ifindex;
}

static __always_inline bool addr_equal(const struct addr *a, const struct addr *b)
{
	const __u32 *x = (const __u32 *)a->b, *y = (const __u32 *)b->b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2] && x[3] == y[3];
}

static __always_inline bool addr_is_zero(const struct addr *a)
{
	const __u32 *x = (const __u32 *)a->b;

	return !(x[0] | x[1] | x[2] | x[3]);
}

static __always_inline void addr_from_v4(struct addr *a, __be32 v4)
{
	__u32 *w = (__u32 *)a->b;

	w[0] = 0;
	w[1] = 0;
	w[2] = bpf_htonl(0xffff);
	w[3] = v4;
}

static __always_inline __be32 addr_v4(const struct addr *a)
{
	return ((const __u32 *)a->b)[3];
}

static __always_inline bool addr_is_multicast(const struct addr *a, enum family family)
{
	if (family == FAMILY_V4)
		return (a->b[12] & 0xf0) == 0xe0;
	return a->b[0] == 0xff;
}

/* is_report reports whether a packet that is dropped anyway goes to the group which receives
 * reports of multicast groups, and nothing else (RFC 3810, section 5.2.14). The node's kernel
 * sends them by itself when a device comes up.
 */
static __always_inline bool is_report(const struct packet *pkt)
{
	const __u32 *w = (const __u32 *)pkt->dst.b;

	return pkt->family == FAMILY_V6 && w[0] == bpf_htonl(0xff020000) && !w[1] && !w[2] && w[3] == bpf_htonl(0x16);
}

/* addr_from_config copies one of the loader's constants. */
static __always_inline void addr_from_config(struct addr *a, const volatile struct addr *from)
{
	const volatile __u32 *w = (const volatile __u32 *)from->b;
	__u32 *to = (__u32 *)a->b;

	to[0] = w[0];
	to[1] = w[1];
	to[2] = w[2];
	to[3] = w[3];
}

static __always_inline bool mac_equal(const __u8 *a, const __u8 *b)
{
	return *(const __u16 *)a == *(const __u16 *)b && *(const __u16 *)(a + 2) == *(const __u16 *)(b + 2) &&
	       *(const __u16 *)(a + 4) == *(const __u16 *)(b + 4);
}

/* need makes the first len bytes of the packet directly readable. */
static __always_inline bool need(struct __sk_buff *skb, __u32 len)
{
	if ((void *)(long)skb->data + len <= (void *)(long)skb->data_end)
		return true;
	return bpf_skb_pull_data(skb, len) == 0;
}

/* is_being_sent reports whether the other end of a netkit pair sends the packet. All
 * other packets were received, and have the index of their ingress device in the
 * kernel; netkit clears it first.
 */
static __always_inline bool is_being_sent(struct __sk_buff *skb)
{
	return !skb->ingress_ifindex;
}

/* as_framed reports whether the kernel's view of the packet agrees with the frame. For received
 * packets it always does. A sender may give the kernel another protocol (packet(7)), or another
 * place of the IP header. Outer headers are pushed relative to this place. The place is checked
 * by the end of the linear part, which contains the IP header, counted from that place.
 */
static __always_inline bool as_framed(struct __sk_buff *skb, const struct packet *pkt)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u64 len = end - data;
	__u8 byte;

	if (!is_being_sent(skb))
		return true;
	barrier_var(len);
	return skb->protocol == pkt->ethertype &&
	       !bpf_skb_load_bytes_relative(skb, len - ETH_HLEN - 1, &byte, 1, BPF_HDR_START_NET) &&
	       bpf_skb_load_bytes_relative(skb, len - ETH_HLEN, &byte, 1, BPF_HDR_START_NET);
}

/* parse_eth reads the Ethernet header. Returns UNDECIDED or the reason to drop. */
static __always_inline enum reason parse_eth(struct __sk_buff *skb, struct packet *pkt)
{
	struct ethhdr *eth;

	if (!need(skb, ETH_HLEN))
		return DROP_BAD_HEADER;
	eth = (void *)(long)skb->data;
	if ((void *)(eth + 1) > (void *)(long)skb->data_end)
		return DROP_BAD_HEADER;
	__builtin_memcpy(pkt->eth_dst, eth->h_dest, 6);
	__builtin_memcpy(pkt->eth_src, eth->h_source, 6);
	pkt->ethertype = eth->h_proto;
	if (skb->vlan_present || eth->h_proto == bpf_htons(ETH_P_8021Q) || eth->h_proto == bpf_htons(ETH_P_8021AD))
		return DROP_VLAN;
	return UNDECIDED;
}

#define END_MAX 0xffff

/* bound sets the end of the packet from the length in its IP header, as the kernel's
 * stack does, which ignores the bytes behind. It returns false if the packet has fewer
 * bytes. A packet that is yet to be cut into segments may be longer than the header's
 * field allows.
 */
static __always_inline bool bound(struct __sk_buff *skb, struct packet *pkt, __u32 len, bool unsaid)
{
	__u32 end = ETH_HLEN + len;

	if (unsaid && skb->gso_size)
		end = skb->len;
	pkt->end = end < END_MAX ? end : END_MAX;
	return end <= skb->len;
}

/* within reports whether the packet has len bytes at an offset. */
static __always_inline bool within(const struct packet *pkt, __u32 at, __u32 len)
{
	return at + len <= pkt->end;
}

/* is_odd reports whether a fragment before the last has a length that is not valid for
 * it (RFC 791 section 3.1, RFC 8200 section 4.5). Linux cuts off the excess, or does
 * not handle it as a fragment.
 */
static __always_inline bool is_odd(const struct packet *pkt, __u32 from)
{
	return (pkt->end - from) & 7;
}

static __always_inline enum reason parse_ipv4(struct __sk_buff *skb, struct packet *pkt)
{
	struct iphdr *ip;
	__u16 frag;

	if (!need(skb, ETH_HLEN + sizeof(*ip)))
		return DROP_BAD_HEADER;
	ip = (void *)(long)skb->data + ETH_HLEN;
	if ((void *)(ip + 1) > (void *)(long)skb->data_end)
		return DROP_BAD_HEADER;
	if (ip->version != 4 || ip->ihl < 5 || ETH_HLEN + ip->ihl * 4 > skb->len)
		return DROP_BAD_HEADER;
	if (!bound(skb, pkt, bpf_ntohs(ip->tot_len), !ip->tot_len) || !within(pkt, ETH_HLEN, ip->ihl * 4))
		return DROP_BAD_HEADER;
	frag = bpf_ntohs(ip->frag_off);
	pkt->family = FAMILY_V4;
	pkt->proto = ip->protocol;
	pkt->l4 = ETH_HLEN + ip->ihl * 4;
	pkt->fragment = frag & (IPV4_MORE_FRAGMENTS | IPV4_FRAGMENT_OFFSET);
	pkt->later = frag & IPV4_FRAGMENT_OFFSET;
	if (frag & IPV4_MORE_FRAGMENTS && is_odd(pkt, pkt->l4))
		return DROP_BAD_HEADER;
	pkt->options = ip->ihl > 5;
	pkt->whole = frag & IPV4_DONT_FRAGMENT;
	addr_from_v4(&pkt->src, ip->saddr);
	addr_from_v4(&pkt->dst, ip->daddr);
	return UNDECIDED;
}

static __always_inline enum reason parse_ipv6(struct __sk_buff *skb, struct packet *pkt)
{
	struct ipv6hdr *ip;

	if (!need(skb, ETH_HLEN + sizeof(*ip)))
		return DROP_BAD_HEADER;
	ip = (void *)(long)skb->data + ETH_HLEN;
	if ((void *)(ip + 1) > (void *)(long)skb->data_end)
		return DROP_BAD_HEADER;
	if (ip->version != 6 || !bound(skb, pkt, sizeof(*ip) + bpf_ntohs(ip->payload_len), !ip->payload_len))
		return DROP_BAD_HEADER;
	/* A jumbogram (RFC 2675): no link here is large enough for it. */
	if (!ip->payload_len && ip->nexthdr == NEXTHDR_HOP && !skb->gso_size)
		return DROP_BAD_HEADER;
	pkt->whole = true;
	pkt->family = FAMILY_V6;
	pkt->proto = ip->nexthdr;
	pkt->l4 = ETH_HLEN + sizeof(*ip);
	__builtin_memcpy(pkt->src.b, ip->saddr, 16);
	__builtin_memcpy(pkt->dst.b, ip->daddr, 16);
	/* An IPv4-mapped address on the wire would name an IPv4 endpoint. */
	if (((__u32 *)pkt->src.b)[2] == bpf_htonl(0xffff) &&
	    !((__u64)((__u32 *)pkt->src.b)[0] | ((__u32 *)pkt->src.b)[1]))
		return DROP_BAD_HEADER;
	if (((__u32 *)pkt->dst.b)[2] == bpf_htonl(0xffff) &&
	    !((__u64)((__u32 *)pkt->dst.b)[0] | ((__u32 *)pkt->dst.b)[1]))
		return DROP_BAD_HEADER;
	return UNDECIDED;
}

/* parse_ip reads the IP header of either family. */
static __always_inline enum reason parse_ip(struct __sk_buff *skb, struct packet *pkt)
{
	if (pkt->ethertype == bpf_htons(ETH_P_IP))
		return parse_ipv4(skb, pkt);
	if (pkt->ethertype == bpf_htons(ETH_P_IPV6))
		return parse_ipv6(skb, pkt);
	return DROP_ETHERTYPE;
}

/* is_icmp reports whether the packet is ICMP; over IPv6 it must have been walked. */
static __always_inline bool is_icmp(const struct packet *pkt)
{
	return pkt->proto == (pkt->family == FAMILY_V4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);
}

static __always_inline bool is_extension(__u8 nexthdr)
{
	return nexthdr == NEXTHDR_HOP || nexthdr == NEXTHDR_ROUTING || nexthdr == NEXTHDR_FRAGMENT ||
	       nexthdr == NEXTHDR_DEST;
}

/* extension_len is the length of an extension header that begins with hdr. */
static __always_inline __u32 extension_len(__u8 type, const __u8 *hdr)
{
	return type == NEXTHDR_FRAGMENT ? 8 : (hdr[1] + 1) * 8;
}

/* walk_extensions moves pkt->l4 and pkt->proto past IPv6 extension headers, and finds
 * whether the packet is a fragment. It refuses a chain longer than
 * MAX_EXTENSION_HEADERS, a chain that does not end in the first fragment (RFC 7112),
 * and a fragment of a fragment: later fragments would decide the content of these. The
 * verifier checks a global function once, not for every path to it, which makes loading
 * several times faster; it assumes that pkt may be NULL.
 */
__noinline enum reason walk_extensions(struct __sk_buff *skb, struct packet *pkt)
{
	__u8 hdr[4];

	if (!pkt || pkt->family != FAMILY_V6)
		return UNDECIDED;
	for (int i = 0; i < MAX_EXTENSION_HEADERS; i++) {
		if (pkt->later || !is_extension(pkt->proto))
			return UNDECIDED;
		if (!within(pkt, pkt->l4, EXTENSION_LEAST) || bpf_skb_load_bytes(skb, pkt->l4, hdr, sizeof(hdr)))
			return DROP_BAD_HEADER;
		if (pkt->proto == NEXTHDR_ROUTING)
			pkt->options = true;
		if (pkt->proto == NEXTHDR_FRAGMENT) {
			__u16 frag = hdr[2] << 8 | hdr[3];

			if (pkt->fragment)
				return DROP_EXTENSION_HEADERS;
			if (frag & IPV6_MORE_FRAGMENTS && is_odd(pkt, pkt->l4 + EXTENSION_LEAST))
				return DROP_BAD_HEADER;
			pkt->fragment_header = pkt->l4;
			pkt->fragment = true;
			pkt->later = frag & IPV6_FRAGMENT_OFFSET;
		}
		pkt->l4 += extension_len(pkt->proto, hdr);
		pkt->proto = hdr[0];
	}
	return pkt->later || !is_extension(pkt->proto) ? UNDECIDED : DROP_EXTENSION_HEADERS;
}

/* load_l4 copies len bytes of the transport header, which must be complete in the
 * packet.
 */
static __always_inline bool load_l4(struct __sk_buff *skb, const struct packet *pkt, __u8 *hdr, __u32 len, __u32 whole)
{
	return within(pkt, pkt->l4, whole) && !bpf_skb_load_bytes(skb, pkt->l4, hdr, len);
}

/* parse_l4 reads the parts of the transport header on which translation depends. The
 * packet must have been walked and must not be a later fragment.
 */
static __always_inline enum reason parse_l4(struct __sk_buff *skb, struct packet *pkt)
{
	__u8 hdr[14];

	switch (pkt->proto) {
	case IPPROTO_TCP:
		if (!load_l4(skb, pkt, hdr, 14, 20))
			return DROP_BAD_HEADER;
		pkt->tcp_flags = hdr[13];
		break;
	case IPPROTO_UDP:
		if (!load_l4(skb, pkt, hdr, 8, 8))
			return DROP_BAD_HEADER;
		break;
	case IPPROTO_SCTP: /* RFC 9260 section 3.1: no address is in its checksum */
		if (!load_l4(skb, pkt, hdr, 12, 12))
			return DROP_BAD_HEADER;
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (!load_l4(skb, pkt, hdr, 8, 8))
			return DROP_BAD_HEADER;
		pkt->icmp_type = hdr[0];
		return UNDECIDED;
	default:
		return DROP_EGRESS_PROTOCOL;
	}
	pkt->sport = *(__be16 *)hdr;
	pkt->dport = *(__be16 *)(hdr + 2);
	return UNDECIDED;
}

#endif
