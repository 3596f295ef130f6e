/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Lookup and delivery of addresses inside a VPC. */
#ifndef ALIOTH_DELIVER_H
#define ALIOTH_DELIVER_H

#include "class.h"
#include "maps.h"
#include "outer.h"
#include "rewrite.h"
#include "toobig.h"

#define VNI_BITS 32

/* unmark removes the marks that a packet of the node's own stack may carry. For the
 * host's rules a mark is valid only if a program has set it at the translation to a
 * shadow address, and the outer packet would inherit it.
 */
static __always_inline void unmark(struct __sk_buff *skb)
{
	if (skb->mark & MARK_MASK)
		skb->mark &= ~MARK_MASK;
}

static __always_inline struct address *lookup_address(__u32 vni, const struct addr *ip)
{
	struct address_key key = { .vni = vni, .ip = *ip };

	return bpf_map_lookup_elem(&alioth_addresses, &key);
}

/* in_ranges returns the id of the role for the range that contains the address; NULL if
 * none does.
 */
static __always_inline __u32 *in_ranges(void *ranges, __u32 vni, const struct addr *ip)
{
	struct prefix_key key = { .prefixlen = VNI_BITS + 128, .vni = vni, .ip = *ip };

	return bpf_map_lookup_elem(ranges, &key);
}

/* Defined in service.h: gives a backend's reply the service's address as its source. */
__noinline enum reason reveal(struct __sk_buff *skb, struct packet *pkt, const struct addr *pod);

/* reveal_inside does so for an interface whose VPC has services. */
static __always_inline enum reason reveal_inside(struct __sk_buff *skb, struct packet *pkt, __u32 ifindex)
{
	pkt->ifindex = ifindex;
	if (walk_extensions(skb, pkt)) /* packets that can't be walked are delivered too inside a VPC */
		return UNDECIDED;
	return reveal(skb, pkt, &pkt->dst) == DROP_REWRITE_FAILED ? DROP_REWRITE_FAILED : UNDECIDED;
}

/* deliver_local hands the packet to an interface of this node. The VNI of the
 * packet never decides alone: the interface must belong to it.
 */
static __always_inline enum reason deliver_local(struct __sk_buff *skb, struct packet *pkt, __u32 ifindex)
{
	struct interface *target = bpf_map_lookup_elem(&alioth_interfaces, &ifindex);

	if (!target)
		return DROP_NO_INTERFACE;
	if (target->vni != pkt->vni)
		return DROP_VNI_MISMATCH;
	if (target->flags & INTERFACE_SERVICES && reveal_inside(skb, pkt, ifindex))
		return DROP_REWRITE_FAILED;
	if (set_macs(skb, target->mac, virtual_mac))
		return DROP_REWRITE_FAILED;
	unmark(skb);
	pkt->action = to_interface(skb, ifindex, target->flags);
	return FORWARDED_LOCAL;
}

/* tunnel_key fills the key of the outer header and returns the helper's flags. Over
 * IPv4 the outer checksum is left out, as is usual for VXLAN; IPv6 requires it (RFC
 * 8200 section 8.1).
 */
static __always_inline __u64 tunnel_key(struct bpf_tunnel_key *key, __u32 vni, const struct addr *node)
{
	const __u32 *w = (const __u32 *)node->b;
	struct addr source;

	key->tunnel_id = vni;
	key->tunnel_ttl = OUTER_TTL;
	if (!w[0] && !w[1] && w[2] == bpf_htonl(0xffff)) {
		addr_from_config(&source, &alioth_config.tunnel_source[FAMILY_V4]);
		key->remote_ipv4 = bpf_ntohl(w[3]);
		key->local_ipv4 = bpf_ntohl(addr_v4(&source));
		return BPF_F_ZERO_CSUM_TX;
	}
	addr_from_config(&source, &alioth_config.tunnel_source[FAMILY_V6]);
	__builtin_memcpy(key->remote_ipv6, node->b, 16);
	__builtin_memcpy(key->local_ipv6, source.b, 16);
	return BPF_F_TUNINFO_IPV6;
}

/* to_device sends the packet to the tunnel's device, which adds the outer headers. */
static __always_inline enum reason to_device(struct __sk_buff *skb, struct packet *pkt, const struct addr *node)
{
	struct bpf_tunnel_key key = {};
	__u64 flags = tunnel_key(&key, pkt->vni, node);

	if (bpf_skb_set_tunnel_key(skb, &key, sizeof(key), flags))
		return DROP_REWRITE_FAILED;
	pkt->action = bpf_redirect(alioth_config.vxlan_ifindex, 0);
	return FORWARDED_REMOTE;
}

/* address_hop gives the packet the Ethernet addresses of its next hop. */
static __always_inline int address_hop(struct __sk_buff *skb, const struct hop *hop)
{
	__u8 source[6];

	write_source(source, hop->origin, hop->class);
	return set_macs(skb, hop->mac, source);
}

/* by_device leaves the outer headers to the tunnel's device. own: the packet is of the
 * node's own interface.
 */
static __always_inline enum reason by_device(struct __sk_buff *skb, struct packet *pkt, bool own, const struct hop *hop)
{
	/* The outer packet keeps socket and mark. Without MARK_TUNNELED it would be
	 * dropped as a packet of one of the node's own sockets.
	 */
	if (own)
		skb->mark |= MARK_TUNNELED;
	return address_hop(skb, hop) ? DROP_REWRITE_FAILED : to_device(skb, pkt, hop->node);
}

/* must_arrive reports whether a packet that exceeds the MTU of a path over IPv6 is sent in two
 * fragments. This applies to packets that no sender can make smaller, and to packets that may be
 * fragmented, up to the length that two fragments can carry.
 */
static __always_inline bool must_arrive(struct __sk_buff *skb, const struct packet *pkt, const struct way *way)
{
	if (!way->over_v6 || !alioth_config.fragment_ifindex)
		return false;
	if (pkt->family == FAMILY_V6)
		return inner_len(skb, pkt) <= ETH_HLEN + IPV6_MIN_MTU;
	return !pkt->whole && first_length(inner_len(skb, pkt), way->limit);
}

/* to_fragmenter sends the packet to the device where it is fragmented, see
 * outer_fragment.h.
 */
static __always_inline enum reason to_fragmenter(struct __sk_buff *skb, struct packet *pkt, const struct hop *hop)
{
	if (address_hop(skb, hop))
		return DROP_REWRITE_FAILED;
	skb->mark = pkt->vni;
	pkt->action = bpf_redirect(alioth_config.fragment_ifindex, 0);
	return FORWARDED_REMOTE;
}

/* deliver_remote sends the packet to another node. DROP_TOO_BIG leaves it unchanged, with
 * pkt->limit set if its sender should hear of it.
 */
static __always_inline enum reason deliver_remote(struct __sk_buff *skb, struct packet *pkt, bool own,
						  const struct hop *hop)
{
	struct way way = {};

	if (alioth_trial) {
		__builtin_memcpy((void *)alioth_hop.node.b, hop->node->b, sizeof(hop->node->b));
		alioth_hop.class = hop->class;
	}
	find_way(skb, pkt, hop->node, &way);
	unmark(skb);
	if (way.limit && must_arrive(skb, pkt, &way))
		return to_fragmenter(skb, pkt, hop);
	if (way.limit && too_big(skb, pkt, &way)) {
		pkt->limit = way.limit;
		return DROP_TOO_BIG;
	}
	/* A packet from the tunnel's device has this device as its route. The route tells a child's
	 * packet from a packet of the node, see child.h. The device replaces the route.
	 */
	if (!way.device || skb->ifindex == alioth_config.vxlan_ifindex)
		return by_device(skb, pkt, own, hop);
	switch (push_outer(skb, pkt, hop)) {
	case PUSHED:
		pkt->action = bpf_redirect_neigh(way.device, &way.next, sizeof(way.next), 0);
		return FORWARDED_REMOTE;
	case NOT_PUSHED:
		return by_device(skb, pkt, own, hop);
	case HALF_PUSHED:
		break;
	}
	return DROP_REWRITE_FAILED;
}

/* echo_here replies to an echo request to a gateway or a service in place. The exchange
 * of the two addresses changes no checksum, the type does.
 */
static __always_inline enum reason echo_here(struct __sk_buff *skb, struct packet *pkt, const struct interface *from)
{
	bool v4 = pkt->family == FAMILY_V4;
	__u8 request = v4 ? 8 : 128, reply = v4 ? 0 : 129, proto = v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
	enum reason reason = walk_extensions(skb, pkt);

	if (reason)
		return reason;
	if (pkt->fragment || pkt->proto != proto)
		return DROP_GATEWAY_CLOSED;
	reason = parse_l4(skb, pkt);
	if (reason)
		return reason;
	if (pkt->icmp_type != request)
		return DROP_GATEWAY_CLOSED;
	if (bpf_l4_csum_replace(skb, pkt->l4 + ICMP_CHECK_OFF, bpf_htons(request << 8), bpf_htons(reply << 8), 2) ||
	    bpf_skb_store_bytes(skb, pkt->l4, &reply, 1, 0) || set_macs(skb, from->mac, virtual_mac) ||
	    store_addr(skb, addr_offset(ETH_HLEN, pkt->family, SIDE_SRC), pkt->family, &pkt->dst) ||
	    store_addr(skb, addr_offset(ETH_HLEN, pkt->family, SIDE_DST), pkt->family, &pkt->src))
		return DROP_REWRITE_FAILED;
	pkt->action = to_interface(skb, skb->ifindex, from->flags);
	return REPLIED;
}

#endif
