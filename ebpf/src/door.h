/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The shadow door: between an address in a VPC and the node's own stack every
 * pod interface has one stand-in address per family, unique on the node.
 */
#ifndef ALIOTH_DOOR_H
#define ALIOTH_DOOR_H

#include "deliver.h"
#include "embedded.h"
#include "follow.h"
#include "work.h"

static __always_inline const struct addr *own_ip(const struct interface *i, enum family family)
{
	return family == FAMILY_V4 ? &i->ip[FAMILY_V4] : &i->ip[FAMILY_V6];
}

static __always_inline const struct addr *own_shadow(const struct interface *i, enum family family)
{
	return family == FAMILY_V4 ? &i->shadow[FAMILY_V4] : &i->shadow[FAMILY_V6];
}

static __always_inline bool is_node_shadow(const struct packet *pkt)
{
	struct addr shadow;

	if (pkt->family == FAMILY_V4)
		addr_from_config(&shadow, &alioth_config.node_shadow[FAMILY_V4]);
	else
		addr_from_config(&shadow, &alioth_config.node_shadow[FAMILY_V6]);
	return addr_equal(&pkt->dst, &shadow);
}

/* is_own_quote tells whether an error is about a packet that was sent to the one with
 * this address, by the one who is now told, and shows of which flow that is.
 */
static __always_inline bool is_own_quote(const struct packet *pkt, const struct quote *q, const struct addr *ip)
{
	return q->l4 && addr_equal(&q->dst, ip) && addr_equal(&q->src, &pkt->dst);
}

/* check_error refuses the errors of a pod about flows that are not its own: who gets
 * them, and connection tracking on the way, believe what they quote. It takes no
 * error in fragments, since nobody sends one. It is for ICMP only, which has been
 * walked. What it has read of an error it leaves to those who translate that. The
 * node's own interface brings what the node's stack says.
 */
__noinline enum reason check_error(struct __sk_buff *skb, struct packet *pkt, const struct interface *from)
{
	struct work *w = take_work();
	__u8 type;

	if (!pkt || !from || !w)
		return DROP_REWRITE_FAILED;
	if (pkt->later)
		return UNDECIDED;
	if (!within(pkt, pkt->l4, 1) || bpf_skb_load_bytes(skb, pkt->l4, &type, 1))
		return DROP_BAD_HEADER;
	pkt->icmp_type = type;
	if (!is_icmp_error(pkt))
		return UNDECIDED;
	if (pkt->fragment || read_quote(skb, pkt, &w->quote))
		return DROP_ICMP_UNRELATED;
	if (from->flags & INTERFACE_NODE || is_own_quote(pkt, &w->quote, own_ip(from, pkt->family)))
		return UNDECIDED;
	return DROP_ICMP_UNRELATED;
}

/* quote_shadow translates the pod's address in an error that the pod sends. What is
 * quoted must be of its flow still, after what services have translated in it.
 */
static __always_inline enum reason quote_shadow(struct __sk_buff *skb, struct packet *pkt, const struct addr *ip,
						const struct addr *shadow)
{
	struct work *w = take_work();

	if (!w || !is_own_quote(pkt, &w->quote, ip))
		return DROP_ICMP_UNRELATED;
	return quote_addr(skb, pkt, &w->quote, SIDE_DST, shadow) ? DROP_REWRITE_FAILED : UNDECIDED;
}

/* leave hands the packet to the node's stack under the interface's shadow. */
static __always_inline enum reason leave(struct __sk_buff *skb, struct packet *pkt, const struct interface *from,
					 __u32 mark)
{
	const struct addr *ip = own_ip(from, pkt->family), *shadow = own_shadow(from, pkt->family);
	enum reason reason;

	if (addr_is_zero(shadow))
		return DROP_NO_SHADOW;
	if (!pkt->later && is_icmp_error(pkt)) {
		reason = quote_shadow(skb, pkt, ip, shadow);
		if (reason)
			return reason;
	}
	if (pkt->fragment && !pkt->later)
		remember_first(skb, pkt, pkt->translated ? &pkt->came.dst : &pkt->dst, &pkt->dst, mark);
	if (set_addr(skb, pkt, SIDE_SRC, shadow))
		return DROP_REWRITE_FAILED;
	skb->mark = (skb->mark & ~MARK_MASK) | mark;
	for_host(skb);
	return TO_STACK;
}

/* leave_after_first lets a later fragment out as it did the first of its datagram. One
 * that has gone through a service of the VPC has found that already, and has its mark;
 * none, if the first has not left.
 */
static __always_inline enum reason leave_after_first(struct __sk_buff *skb, struct packet *pkt,
						     const struct interface *from)
{
	__u32 mark = skb->mark & MARK_MASK;
	struct first_fragment *first;
	struct work *w;

	if (pkt->translated)
		return mark ? leave(skb, pkt, from, mark) : DROP_EGRESS_FRAGMENT;
	first = find_first(skb, pkt, &pkt->dst);
	w = take_work();
	if (!first || !w)
		return DROP_EGRESS_FRAGMENT;
	w->backend.ip = first->shown;
	mark = first->mark;
	if (!addr_equal(&w->backend.ip, &pkt->dst) && set_addr(skb, pkt, SIDE_DST, &w->backend.ip))
		return DROP_REWRITE_FAILED;
	return leave(skb, pkt, from, mark);
}

/* reply_to_node lets out what answers the node. Whether the node did ask is
 * known to its connection tracking; here a pod's own TCP opening stops.
 */
static __always_inline enum reason reply_to_node(struct __sk_buff *skb, struct packet *pkt,
						 const struct interface *from)
{
	enum reason reason = parse_l4(skb, pkt);

	if (reason)
		return reason;
	/* A fragment to come could write over the flags. */
	if (pkt->fragment && pkt->proto == IPPROTO_TCP)
		return DROP_EGRESS_FRAGMENT;
	if (pkt->proto == IPPROTO_TCP && (pkt->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		return DROP_NODE_CLOSED;
	return leave(skb, pkt, from, 0);
}

#endif
