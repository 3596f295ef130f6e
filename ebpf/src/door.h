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

/* quote_own translates the pod's address in an error which the pod sends. */
static __always_inline int quote_own(struct __sk_buff *skb, struct packet *pkt, const struct addr *ip,
				     const struct addr *shadow)
{
	struct work *w = take_work();

	if (!w || read_quote(skb, pkt, &w->quote) || !addr_equal(&w->quote.dst, ip))
		return 0;
	return quote_addr(skb, pkt, &w->quote, SIDE_DST, shadow);
}

/* leave hands the packet to the node's stack under the interface's shadow. */
static __always_inline enum reason leave(struct __sk_buff *skb, struct packet *pkt, const struct interface *from,
					 __u32 mark)
{
	const struct addr *ip = own_ip(from, pkt->family), *shadow = own_shadow(from, pkt->family);

	if (addr_is_zero(shadow))
		return DROP_NO_SHADOW;
	if (!pkt->later && is_icmp_error(pkt) && quote_own(skb, pkt, ip, shadow))
		return DROP_REWRITE_FAILED;
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
		return mark ? leave(skb, pkt, from, mark) : DROP_DOOR_FRAGMENT;
	first = find_first(skb, pkt, &pkt->dst);
	w = take_work();
	if (!first || !w)
		return DROP_DOOR_FRAGMENT;
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
		return DROP_DOOR_FRAGMENT;
	if (pkt->proto == IPPROTO_TCP && (pkt->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		return DROP_DOOR_CLOSED;
	return leave(skb, pkt, from, 0);
}

#endif
