/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Fragments of tunnel packets over IPv6. No device of the kernel fragments forwarded packets
 * there. Two kinds of packets have to arrive all the same: an IPv6 packet of up to IPV6_MIN_MTU
 * bytes over an underlay with this MTU, and an IPv4 packet that may be fragmented over a path
 * with a smaller MTU than the pod's. So the programs send such packets through a pair of devices
 * without offloads. Behind it each packet is one segment with its checksum. There they get their
 * outer headers and leave in two fragments (RFC 2473 section 7.1, RFC 8200 section 4.5). A clone
 * passes the pair of devices again to become the second fragment, so that the neighbour is
 * resolved for each of the two.
 */
#ifndef ALIOTH_OUTER_FRAGMENT_H
#define ALIOTH_OUTER_FRAGMENT_H

#include "role.h"

/* Between the two devices the mark of a packet is its VNI; the mark of a clone is the
 * length of the first fragment's payload.
 */
#define MARK_SECOND 0x80000000
#define MARK_LENGTH FIRST_MAX

struct fragment_header {
	__u8 nexthdr;
	__u8 reserved;
	__be16 offset; /* in bytes, and IPV6_MORE_FRAGMENTS */
	__be32 id;
};

struct fragment {
	struct ipv6hdr ip;
	struct fragment_header header;
};
#define FRAGMENT_HLEN 48

/* The headers between the outer Ethernet header and the inner IP header. */
struct outer_v6 {
	struct fragment fragment;
	struct udphdr udp;
	__be32 vxlan_flags;
	__be32 vni; /* in the upper 24 bits */
	struct ethhdr inner;
	__u16 pad; /* not on the wire */
};
#define OUTER_V6_LEN (FRAGMENT_HLEN + 8 + 8 + ETH_HLEN)

/* send_fragment sends a fragment to its node, along the host's route. */
static __always_inline enum reason send_fragment(struct __sk_buff *skb, struct packet *pkt,
						 const struct fragment *fragment)
{
	struct bpf_fib_lookup route = {
		.family = AF_INET6,
		.l4_protocol = IPPROTO_UDP,
		.ifindex = alioth_config.underlay_ifindex[FAMILY_V6],
		.tot_len = skb->len - ETH_HLEN,
	};
	struct bpf_redir_neigh next = { .nh_family = AF_INET6 };

	__builtin_memcpy(route.ipv6_src, fragment->ip.saddr, 16);
	__builtin_memcpy(route.ipv6_dst, fragment->ip.daddr, 16);
	if (bpf_fib_lookup(skb, &route, sizeof(route), BPF_FIB_LOOKUP_OUTPUT | BPF_FIB_LOOKUP_SKIP_NEIGH))
		return DROP_TOO_BIG;
	__builtin_memcpy(next.ipv6_nh, route.ipv6_dst, 16);
	skb->mark = 0;
	pkt->outer = FRAGMENT_HLEN;
	pkt->action = bpf_redirect_neigh(route.ifindex, &next, sizeof(next), 0);
	return FORWARDED_REMOTE;
}

/* second_fragment turns the clone of a whole packet into the second fragment. */
static __always_inline enum reason second_fragment(struct __sk_buff *skb, struct packet *pkt)
{
	__u32 first = skb->mark & MARK_LENGTH, before = ETH_HLEN + FRAGMENT_HLEN + first;
	struct fragment fragment;

	if (skb->len <= before || bpf_skb_load_bytes(skb, ETH_HLEN, &fragment, FRAGMENT_HLEN))
		return DROP_BAD_HEADER;
	fragment.ip.payload_len = bpf_htons(sizeof(fragment.header) + skb->len - before);
	fragment.header.offset = bpf_htons(first);
	if (bpf_skb_adjust_room(skb, -(__s32)first, BPF_ADJ_ROOM_MAC, 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &fragment, FRAGMENT_HLEN, 0))
		return DROP_REWRITE_FAILED;
	return send_fragment(skb, pkt, &fragment);
}

/* describe_outer_v6 fills the headers of a datagram before it is fragmented. The UDP
 * checksum is left out (RFC 6935 section 5): the inner packet has its own, and the
 * tunnel's device of every node accepts such packets.
 */
static __always_inline void describe_outer_v6(struct __sk_buff *skb, const struct packet *pkt, const struct addr *node,
					      struct outer_v6 *outer)
{
	__u8 inner_ecn = ecn(skb, pkt->family);
	__u32 len = skb->len + 8 + 8;
	struct addr source;

	addr_from_config(&source, &alioth_config.tunnel_source[FAMILY_V6]);
	__builtin_memcpy(outer->fragment.ip.saddr, source.b, 16);
	__builtin_memcpy(outer->fragment.ip.daddr, node->b, 16);
	outer->fragment.ip.version = 6;
	/* As describe_outer does. */
	outer->fragment.ip.flow_lbl[0] = (inner_ecn == ECN_CE ? ECN_ECT_0 : inner_ecn) << 4;
	outer->fragment.ip.nexthdr = NEXTHDR_FRAGMENT;
	outer->fragment.ip.hop_limit = OUTER_TTL;
	outer->fragment.header.nexthdr = IPPROTO_UDP;
	outer->fragment.header.id = bpf_get_prandom_u32();
	outer->udp.source = source_port(skb, pkt);
	outer->udp.dest = alioth_config.tunnel_port;
	outer->udp.len = bpf_htons(len);
	outer->vxlan_flags = bpf_htonl(VXLAN_HAS_VNI);
	outer->vni = bpf_htonl(pkt->vni << 8);
	__builtin_memcpy(outer->inner.h_dest, pkt->eth_dst, 6);
	__builtin_memcpy(outer->inner.h_source, pkt->eth_src, 6);
	outer->inner.h_proto = pkt->ethertype;
}

/* make_room_v6 makes room for the outer headers. The family changes to IPv6: the helper
 * informs the kernel, and the Ethernet header informs the receiver of the clone. With a
 * flag of bpf_skb_adjust_room instead, the packet could not be cut afterwards.
 */
static __always_inline int make_room_v6(struct __sk_buff *skb, const struct packet *pkt)
{
	__s32 room = OUTER_V6_LEN;
	__be16 proto = bpf_htons(ETH_P_IPV6);

	if (pkt->family == FAMILY_V4) {
		room -= sizeof(struct ipv6hdr) - sizeof(struct iphdr);
		if (bpf_skb_change_proto(skb, proto, 0) ||
		    bpf_skb_store_bytes(skb, ETH_HLEN - sizeof(proto), &proto, sizeof(proto), 0))
			return -1;
	}
	return bpf_skb_adjust_room(skb, room, BPF_ADJ_ROOM_MAC, 0) ? -1 : 0;
}

/* first_fragment turns a whole packet into the first fragment, after it has sent the
 * clone that becomes the second one. limit is the length of an inner packet that would
 * fit.
 */
static __always_inline enum reason first_fragment(struct __sk_buff *skb, struct packet *pkt, const struct addr *node,
						  __u32 limit)
{
	__u32 first = first_length(skb->len, limit);
	struct outer_v6 outer = {};

	if (!first)
		return DROP_TOO_BIG;
	describe_outer_v6(skb, pkt, node, &outer);
	if (make_room_v6(skb, pkt) || bpf_skb_store_bytes(skb, ETH_HLEN, &outer, OUTER_V6_LEN, 0))
		return DROP_REWRITE_FAILED;
	skb->mark = MARK_SECOND | first;
	if (bpf_clone_redirect(skb, alioth_config.fragment_ifindex, 0))
		return DROP_REWRITE_FAILED;
	outer.fragment.ip.payload_len = bpf_htons(sizeof(struct fragment_header) + first);
	outer.fragment.header.offset = bpf_htons(IPV6_MORE_FRAGMENTS);
	if (bpf_skb_change_tail(skb, ETH_HLEN + FRAGMENT_HLEN + first, 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &outer, FRAGMENT_HLEN, 0))
		return DROP_REWRITE_FAILED;
	return send_fragment(skb, pkt, &outer.fragment);
}

/* next_node finds again the node that the program in front of the pair of devices sent the packet
 * to, by its class; NULL if the row was removed since. A member has its place in the Ethernet
 * destination.
 */
static __always_inline const struct addr *next_node(const struct packet *pkt)
{
	struct address *to = lookup_address(pkt->vni, &pkt->dst);
	enum packet_class class = pkt->class;
	struct guide guide;
	struct cached *row;

	if (class == CLASS_TO_BOUNCER || class == CLASS_TO_DIVIDER)
		return find_guide(pkt, &guide) && guide.role ? member_at(guide.role, pkt->eth_dst[5]) : 0;
	if (to)
		return to->kind == ADDRESS_REMOTE ? &to->node : 0;
	row = lookup_cached(pkt->vni, &pkt->dst);
	return class == CLASS_DIRECT && is_row(row) ? &row->node : 0;
}

/* fragmented handles a packet behind the pair of devices. */
static __always_inline enum reason fragmented(struct __sk_buff *skb, struct packet *pkt)
{
	const struct addr *node;
	struct way way = {};
	enum reason reason;

	if (skb->mark & MARK_SECOND)
		return second_fragment(skb, pkt);
	pkt->vni = skb->mark;
	reason = parse_eth(skb, pkt);
	if (reason)
		return reason;
	reason = parse_ip(skb, pkt);
	if (reason)
		return reason;
	read_source(pkt);
	node = next_node(pkt);
	if (!node)
		return is_report(pkt) ? DROP_MLD : DROP_NO_ENDPOINT;
	find_way(skb, pkt, node, &way);
	skb->mark = 0;
	if (!way.limit) /* the last segment of a packet, which is shorter */
		return to_device(skb, pkt, node);
	return way.over_v6 ? first_fragment(skb, pkt, node, way.limit) : DROP_TOO_BIG;
}

#endif
