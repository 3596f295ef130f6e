/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Treatment of the inner packet of a known node, by its class. A node returns a direct packet
 * that it can't deliver: only the sender can correct the row that led the packet here. A returned
 * packet is neither delivered nor returned.
 */
#ifndef ALIOTH_RECEIVE_H
#define ALIOTH_RECEIVE_H

#include "role.h"

/* give_back sends a packet back to the node that sent it, as it came. The tunnel's device
 * adds the outer headers, for packets of any length over either family: returned packets
 * are few. Over IPv6 no device fragments, so the packet that came in fragments is dropped.
 * A global function, which is verified once, for its stack frame.
 */
__noinline enum reason give_back(struct __sk_buff *skb, struct packet *pkt, const struct addr *node)
{
	struct way way = {};
	enum reason reason;
	__u8 source[6];

	if (!pkt || !node)
		return DROP_REWRITE_FAILED;
	if (!is_mapped(node)) {
		find_way(skb, pkt, node, &way);
		if (way.limit)
			return DROP_TOO_BIG;
	}
	unmark(skb);
	write_source(source, pkt->origin, CLASS_RETURNED);
	if (set_macs(skb, pkt->eth_dst, source))
		return DROP_REWRITE_FAILED;
	reason = to_device(skb, pkt, node);
	return reason == FORWARDED_REMOTE ? RETURNED : reason;
}

/* not_here decides about a packet for an address that no interface of this node has. No
 * node leads to a gateway of another, nor to an address of another CNI plugin: for these
 * no sender has a better row.
 */
static __always_inline enum reason not_here(struct __sk_buff *skb, struct packet *pkt, const struct addr *node,
					    const struct address *to)
{
	if (pkt->class == CLASS_FROM_BOUNCER)
		return DROP_WRONG_NODE;
	if (pkt->class != CLASS_DIRECT)
		return play(skb, pkt, node);
	if (to && to->kind == ADDRESS_OUTSIDE)
		return DROP_HELD_OUTSIDE;
	if (to && to->kind == ADDRESS_GATEWAY)
		return DROP_WRONG_NODE;
	return give_back(skb, pkt, node);
}

/* decide decides about a packet that node sent, see goes_on. */
static __always_inline enum reason decide(struct __sk_buff *skb, struct packet *pkt, const struct addr *node,
					  bool present)
{
	struct address *address;

	read_source(pkt);
	if (!present)
		return pkt->class == CLASS_DIRECT ? give_back(skb, pkt, node) : DROP_UNKNOWN_VNI;
	address = lookup_address(pkt->vni, &pkt->src);
	if (address && address->kind == ADDRESS_LOCAL) {
		if (pkt->class != CLASS_RETURNED)
			return DROP_SPOOFED_LOCAL;
		pkt->ifindex = address->ifindex;
		return again(skb, pkt, node);
	}
	if (pkt->class == CLASS_RETURNED)
		return DROP_RETURNED_FOREIGN;
	address = lookup_address(pkt->vni, &pkt->dst);
	if (address && address->kind == ADDRESS_LOCAL)
		return deliver_local(skb, pkt, address->ifindex);
	return not_here(skb, pkt, node, address);
}

/* too_big_to_send tells the sender of a packet that is too big for the path on which this
 * node sends it on. The sender is a pod of this node whose packet has been returned, or one
 * of another node.
 */
static __always_inline enum reason too_big_to_send(struct __sk_buff *skb, struct packet *pkt, const struct addr *node)
{
	struct address *source = lookup_address(pkt->vni, &pkt->src);
	struct interface *from;

	if (!source || source->kind != ADDRESS_LOCAL) {
		pkt->next = *node;
		return member_too_big(skb, pkt);
	}
	pkt->ifindex = source->ifindex;
	from = bpf_map_lookup_elem(&alioth_interfaces, &pkt->ifindex);
	if (!from || from->vni != pkt->vni)
		return DROP_TOO_BIG;
	__builtin_memcpy(pkt->eth_src, from->mac, sizeof(pkt->eth_src));
	return tell_too_big(skb, pkt, from);
}

/* receive handles a packet that node sent. present: its VPC is on this node. */
static __always_inline enum reason receive(struct __sk_buff *skb, struct packet *pkt, const struct addr *node,
					   bool present)
{
	enum reason reason = decide(skb, pkt, node, present);

	if (goes_on(reason))
		reason = send_on(skb, pkt, false);
	return reason == DROP_TOO_BIG && pkt->limit ? too_big_to_send(skb, pkt, node) : reason;
}

#endif
