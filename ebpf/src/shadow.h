/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Translation between an address in a VPC and the node's own stack. For that, every
 * interface of a pod has a shadow address per family, which is unique on the node.
 */
#ifndef ALIOTH_SHADOW_H
#define ALIOTH_SHADOW_H

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

/* is_own_quote reports whether an error quotes a packet that the error's receiver sent
 * to ip, and whether the quote identifies a flow.
 */
static __always_inline bool is_own_quote(const struct packet *pkt, const struct quote *q, const struct addr *ip)
{
	return q->l4 && addr_equal(&q->dst, ip) && addr_equal(&q->src, &pkt->dst);
}

/* check_error drops ICMP errors of a pod about flows that are not its own: the
 * receivers, and connection tracking on the path, believe the quote. Errors in
 * fragments are dropped, since no stack sends them. The packet must be ICMP and walked.
 * The quote stays in the work area for the functions that translate it. Errors from the
 * node's own interface come from the node's stack, and are allowed.
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

/* quote_shadow translates the pod's address in an error that the pod sends. The quote
 * is compared with the packet's addresses once more, since the translation of services
 * may have changed them.
 */
static __always_inline enum reason quote_shadow(struct __sk_buff *skb, struct packet *pkt, const struct addr *ip,
						const struct addr *shadow)
{
	struct work *w = take_work();

	if (!w || !is_own_quote(pkt, &w->quote, ip))
		return DROP_ICMP_UNRELATED;
	return quote_addr(skb, pkt, &w->quote, SIDE_DST, shadow) ? DROP_REWRITE_FAILED : UNDECIDED;
}

/* leave hands the packet to the node's stack, with the interface's shadow address as
 * source.
 */
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

/* leave_after_first handles a later fragment like the first one of its datagram. A
 * fragment that was translated for a service of the VPC has the mark of the first one
 * already; its mark is 0 if the first fragment was not handed to the stack.
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

/* reply_to_node hands replies to the node to its stack. The node's connection tracking
 * decides whether they belong to a flow; TCP openings of the pod are dropped here.
 */
static __always_inline enum reason reply_to_node(struct __sk_buff *skb, struct packet *pkt,
						 const struct interface *from)
{
	enum reason reason = parse_l4(skb, pkt);

	if (reason)
		return reason;
	/* A later fragment could overwrite the flags. */
	if (pkt->fragment && pkt->proto == IPPROTO_TCP)
		return DROP_EGRESS_FRAGMENT;
	if (pkt->proto == IPPROTO_TCP && (pkt->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		return DROP_NODE_CLOSED;
	return leave(skb, pkt, from, 0);
}

#endif
