/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Bouncers and dividers (docs/design/140): nodes with a complete table. If a node has no row for
 * a packet, the packet goes over one of them, with a higher class at each hop.
 */
#ifndef ALIOTH_ROLE_H
#define ALIOTH_ROLE_H

#include "deliver.h"
#include "share.h"
#include "toobig.h"

/* A flow goes over one member for this time, and then over another one. */
#define ROLE_SLOT_NS 250000000ULL

/* At most one entry per address and second, and of an interface 16 a second and 64 at once. */
#define MISS_INTERVAL_NS 1000000000ULL
#define MISS_SHARE_NS (MISS_INTERVAL_NS / 16)
#define MISS_BURST_NS (63 * MISS_SHARE_NS)

/* For this time a row that is gone is kept, see CACHED_GONE. */
#define GONE_NS 1000000000ULL

/* A use of a row is noted once in this time. */
#define USED_NS 1000000000ULL

/* The inner Ethernet destination on the way to a member. It has no row of the address that
 * could have another one, and the last byte is the member's place in the role.
 */
static const __u8 member_mac[5] = { 0x02, 0xa1, 0x07, 0x00, 0x03 };

static __always_inline bool is_this_node(const struct addr *node)
{
	struct addr own;

	addr_from_config(&own, &alioth_config.tunnel_source[is_mapped(node) ? FAMILY_V4 : FAMILY_V6]);
	return addr_equal(&own, node);
}

static __always_inline struct role *lookup_role(__u32 vni, __u32 id)
{
	struct role_key key = { .vni = vni, .id = id };

	return bpf_map_lookup_elem(&alioth_roles, &key);
}

static __always_inline struct cached *lookup_cached(__u32 vni, const struct addr *ip)
{
	struct address_key key = { .vni = vni, .ip = *ip };

	return bpf_map_lookup_elem(&alioth_cached, &key);
}

/* is_row reports whether packets go by the row. */
static __always_inline bool is_row(const struct cached *row)
{
	return row && row->state == CACHED_ROW && !is_this_node(&row->node);
}

/* draw is a number that is equal for the packets of a flow within a slot of time. The
 * numbers of two slots have nothing in common: with a sequence, retries after whole seconds
 * would meet the same member again.
 */
static __always_inline __u32 draw(struct __sk_buff *skb, const struct packet *pkt)
{
	__u32 x = flow_hash(skb, pkt) ^ (__u32)(bpf_ktime_get_coarse_ns() / ROLE_SLOT_NS) * GOLDEN_RATIO;

	x = (x ^ x >> 16) * 0x85ebca6b;
	x = (x ^ x >> 13) * 0xc2b2ae35;
	return x ^ x >> 16;
}

/* member_at returns the member at a place, for any place; NULL without a member. */
static __always_inline const struct addr *member_at(const struct role *role, __u32 place)
{
	__u32 n = role->n;

	if (!n || n > MAX_MEMBERS)
		return 0;
	place %= n;
	/* The verifier derives no bound from a remainder. */
	barrier_var(place);
	return &role->member[place & (MAX_MEMBERS - 1)];
}

/* choose_member makes pkt->next a member that is neither this node nor avoid, which may be NULL.
 * It returns false without such a member.
 */
static __always_inline bool choose_member(struct __sk_buff *skb, struct packet *pkt, const struct role *role,
					  const struct addr *avoid)
{
	__u32 place = draw(skb, pkt);

	/* Two are to be avoided at most. */
	for (int i = 0; i < 3; i++, place++) {
		const struct addr *member = member_at(role, place);

		if (!member)
			return false;
		if (is_this_node(member) || (avoid && addr_equal(member, avoid)))
			continue;
		pkt->next = *member;
		__builtin_memcpy(pkt->eth_dst, member_mac, sizeof(member_mac));
		pkt->eth_dst[5] = place % role->n;
		return true;
	}
	return false;
}

/* send_on carries out the decision to send the packet on: to pkt->next, with pkt->class,
 * pkt->origin and pkt->eth_dst. own: the packet is of the node's own interface. A function that is verified
 * once, for its stack frame.
 */
__noinline enum reason send_on(struct __sk_buff *skb, struct packet *pkt, bool own)
{
	enum reason reason;
	struct hop hop;

	if (!pkt)
		return DROP_REWRITE_FAILED;
	hop.node = &pkt->next;
	hop.mac = pkt->eth_dst;
	hop.class = pkt->class;
	hop.origin = pkt->origin;
	reason = deliver_remote(skb, pkt, own, &hop);
	return reason == FORWARDED_REMOTE && pkt->class != CLASS_DIRECT ? FORWARDED_ROLE : reason;
}

/* goes_on reports whether a decision is to send the packet on. */
static __always_inline bool goes_on(enum reason reason)
{
	return reason == FORWARDED_REMOTE || reason == FORWARDED_ROLE;
}

/* by_row decides to send the packet to the node of a row. */
static __always_inline enum reason by_row(struct packet *pkt, const struct address *to, enum packet_class class)
{
	pkt->class = class;
	pkt->next = to->node;
	__builtin_memcpy(pkt->eth_dst, to->mac, sizeof(pkt->eth_dst));
	return class == CLASS_DIRECT ? FORWARDED_REMOTE : FORWARDED_ROLE;
}

/* note_use writes the time of the last use of a row. */
static __always_inline void note_use(struct cached *row)
{
	__u64 now = bpf_ktime_get_coarse_ns();

	if (!alioth_trial && now - row->used >= USED_NS)
		row->used = now;
}

/* note_miss asks the daemon to look up an address. */
static __noinline int note_miss(const struct miss *miss)
{
	struct address_key key = { .vni = miss->vni, .ip = miss->ip };
	__u64 now = bpf_ktime_get_ns(), *last;
	__u32 ifindex = miss->ifindex;

	if (alioth_trial)
		return 0;
	last = bpf_map_lookup_elem(&alioth_miss_gate, &key);
	if (last && now - *last < MISS_INTERVAL_NS)
		return 0;
	if (!take_share(&alioth_miss_share, &ifindex, now, MISS_SHARE_NS, MISS_BURST_NS))
		return 0;
	if (!bpf_ringbuf_output(&alioth_misses, (void *)miss, sizeof(*miss), 0))
		bpf_map_update_elem(&alioth_miss_gate, &key, &now, BPF_ANY);
	return 0;
}

/* The role whose members have more rows for the destination than this node. */
struct guide {
	struct role *role;
	enum packet_class class;
	enum reason none; /* the reason if a complete table has no row */
};

/* find_guide returns whether the destination is in a range of the VPC. Without a role, the
 * table of this node is complete.
 */
static __always_inline bool find_guide(const struct packet *pkt, struct guide *guide)
{
	__u32 *id = in_ranges(&alioth_subnets, pkt->vni, &pkt->dst);

	guide->role = 0;
	guide->class = CLASS_TO_BOUNCER;
	guide->none = DROP_NO_ENDPOINT;
	if (!id) {
		id = in_ranges(&alioth_vpc_ranges, pkt->vni, &pkt->dst);
		guide->class = CLASS_TO_DIVIDER;
		guide->none = DROP_NO_SUBNET;
	}
	if (!id)
		return false;
	if (*id) {
		guide->role = lookup_role(pkt->vni, *id);
		/* It is being changed. */
		if (!guide->role)
			guide->none = DROP_NO_MEMBER;
	}
	return true;
}

/* to_member decides to send the packet over a member. */
static __always_inline enum reason to_member(struct __sk_buff *skb, struct packet *pkt, const struct guide *guide,
					     const struct addr *avoid)
{
	if (!choose_member(skb, pkt, guide->role, avoid))
		return DROP_NO_MEMBER;
	pkt->class = guide->class;
	return FORWARDED_ROLE;
}

/* by_role decides about a packet of an interface of this node to an address without a row on the
 * node, see send_on. UNDECIDED: the VPC does not have the address.
 */
__noinline enum reason by_role(struct __sk_buff *skb, struct packet *pkt)
{
	struct miss miss = {};
	struct cached *row;
	enum reason reason;
	struct guide guide;

	if (!pkt)
		return DROP_REWRITE_FAILED;
	row = lookup_cached(pkt->vni, &pkt->dst);
	if (is_row(row)) {
		note_use(row);
		__builtin_memcpy(pkt->eth_dst, row->mac, sizeof(pkt->eth_dst));
		pkt->class = CLASS_DIRECT;
		pkt->next = row->node;
		return FORWARDED_REMOTE;
	}
	if (!find_guide(pkt, &guide))
		return UNDECIDED;
	if (!guide.role)
		return guide.none;
	if (!(guide.role->flags & ROLE_HERE)) {
		miss.vni = pkt->vni;
		miss.ip = pkt->dst;
		miss.ifindex = skb->ifindex;
		note_miss(&miss);
		return to_member(skb, pkt, &guide, 0);
	}
	if (guide.role->flags & ROLE_COMPLETE)
		return guide.none;
	reason = to_member(skb, pkt, &guide, 0);
	return reason == DROP_NO_MEMBER ? DROP_ROLE_INCOMPLETE : reason;
}

/* bounce decides about a packet by the rows of this node, which are all if the table is
 * complete.
 */
static __always_inline enum reason bounce(struct packet *pkt, bool complete)
{
	struct address *to = lookup_address(pkt->vni, &pkt->dst);

	if (!to)
		return complete ? DROP_NO_ENDPOINT : DROP_ROLE_INCOMPLETE;
	if (to->kind == ADDRESS_OUTSIDE)
		return DROP_HELD_OUTSIDE;
	/* A row that leads nowhere: this node does not have the address. */
	if (to->kind != ADDRESS_REMOTE || is_this_node(&to->node))
		return DROP_WRONG_NODE;
	return by_row(pkt, to, CLASS_FROM_BOUNCER);
}

static __always_inline bool is_divider(const struct packet *pkt, bool *complete)
{
	__u32 *id = in_ranges(&alioth_vpc_ranges, pkt->vni, &pkt->dst);
	struct role *role = id && *id ? lookup_role(pkt->vni, *id) : 0;

	*complete = role && role->flags & ROLE_COMPLETE;
	return role && role->flags & ROLE_HERE;
}

/* play decides about a packet that node sent over a role of this node, see send_on. */
__noinline enum reason play(struct __sk_buff *skb, struct packet *pkt, const struct addr *node)
{
	struct guide guide;
	bool complete, known;

	if (!pkt || !node)
		return DROP_REWRITE_FAILED;
	known = find_guide(pkt, &guide) && guide.class == CLASS_TO_BOUNCER;
	if (pkt->class == CLASS_TO_BOUNCER) {
		if (!known || !guide.role || !(guide.role->flags & ROLE_HERE))
			return DROP_NOT_MEMBER;
		return bounce(pkt, guide.role->flags & ROLE_COMPLETE);
	}
	if (!is_divider(pkt, &complete))
		return DROP_NOT_MEMBER;
	if (!known)
		return complete ? DROP_NO_SUBNET : DROP_ROLE_INCOMPLETE;
	if (guide.role && guide.role->flags & ROLE_HERE)
		return bounce(pkt, guide.role->flags & ROLE_COMPLETE);
	if (guide.role)
		return to_member(skb, pkt, &guide, node);
	return guide.none == DROP_NO_MEMBER ? DROP_NO_MEMBER : bounce(pkt, true);
}

/* bouncers_of returns the role of the destination's subnet; NULL if this node does not know
 * it, or has all of its addresses.
 */
static __noinline struct role *bouncers_of(const struct packet *pkt)
{
	__u32 *id = in_ranges(&alioth_subnets, pkt->vni, &pkt->dst);

	return id && *id ? lookup_role(pkt->vni, *id) : 0;
}

/* address_error decides about the way of an ICMP error that a member has made of a packet, see
 * send_on: back to the sending pod of another node. The error is a new packet with a class that
 * no node returns.
 */
__noinline enum reason address_error(struct __sk_buff *skb, struct packet *pkt, const struct addr *gateway)
{
	struct guide guide;

	if (!pkt || !gateway)
		return DROP_REWRITE_FAILED;
	pkt->dst = pkt->src;
	pkt->src = *gateway;
	pkt->proto = pkt->family == FAMILY_V4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
	pkt->l4 = ETH_HLEN + outer_header(pkt->family);
	pkt->fragment = pkt->later = pkt->options = false;
	pkt->sport = pkt->dport = 0;
	pkt->whole = true;
	pkt->limit = 0;
	/* In the form of the sender's packet, without its identity. */
	pkt->origin &= ORIGIN_SENT;
	if (lookup_address(pkt->vni, &pkt->dst))
		return bounce(pkt, true);
	if (!find_guide(pkt, &guide) || !guide.role)
		return DROP_TOO_BIG;
	return to_member(skb, pkt, &guide, 0);
}

/* member_too_big tells a pod of another node, which has sent the packet over this one, the
 * limit of the packet. pkt->next is the node that sent it here.
 */
static __always_inline enum reason member_too_big(struct __sk_buff *skb, struct packet *pkt)
{
	struct role *role = bouncers_of(pkt);
	const struct addr *gateway;
	struct complaint c = {};
	enum reason reason;

	if (!role || !name_limit(skb, pkt, &c))
		return DROP_TOO_BIG;
	gateway = pkt->family == FAMILY_V4 ? &role->gateway[FAMILY_V4] : &role->gateway[FAMILY_V6];
	reason = told_too_big(tell(skb, pkt, gateway, &c));
	if (reason != REPLIED_TOO_BIG)
		return reason;
	reason = address_error(skb, pkt, gateway);
	if (goes_on(reason))
		reason = send_on(skb, pkt, false);
	return goes_on(reason) ? REPLIED_TOO_BIG : reason;
}

/* led_to reports whether a row leads to the node, or did so in the last second. A row that
 * leads there is gone then.
 */
static __always_inline bool led_to(struct cached *row, const struct addr *node)
{
	__u64 now = bpf_ktime_get_coarse_ns();
	bool there = addr_equal(&row->node, node), recent = row->until > now;

	if (row->state != CACHED_ROW)
		return recent && (there || addr_equal(&row->before, node));
	if (!there)
		return recent && addr_equal(&row->before, node);
	if (alioth_trial)
		return true;
	/* The new end does not apply to the node before. */
	if (!recent)
		__builtin_memset(&row->before, 0, sizeof(row->before));
	row->until = now + GONE_NS;
	row->state = CACHED_GONE;
	return true;
}

/* sign writes the origin of a packet of the interface pkt->ifindex. */
static __always_inline void sign(struct packet *pkt)
{
	const struct interface *from = bpf_map_lookup_elem(&alioth_interfaces, &pkt->ifindex);

	pkt->origin = from && from->vni == pkt->vni ? origin_of(from) : 0;
}

/* again decides about a packet of a pod of this node, behind pkt->ifindex, that node has returned:
 * it goes over a role, see send_on. What the node has sent back as the identity does not count.
 */
__noinline enum reason again(struct __sk_buff *skb, struct packet *pkt, const struct addr *node)
{
	struct address *to;
	struct cached *row;
	struct guide guide;
	enum reason reason;
	bool led;

	if (!pkt || !node)
		return DROP_REWRITE_FAILED;
	to = lookup_address(pkt->vni, &pkt->dst);
	if (to && to->kind == ADDRESS_LOCAL)
		return DROP_RETURNED_HOME;
	row = lookup_cached(pkt->vni, &pkt->dst);
	led = row && led_to(row, node);
	if (!led && !(to && to->kind == ADDRESS_REMOTE && addr_equal(&to->node, node)))
		return DROP_RETURNED_FOREIGN;
	if (!find_guide(pkt, &guide))
		return DROP_STALE_ROW;
	if (!guide.role)
		return guide.none == DROP_NO_MEMBER ? DROP_NO_MEMBER : DROP_STALE_ROW;
	sign(pkt);
	reason = to_member(skb, pkt, &guide, 0);
	return reason == DROP_NO_MEMBER && guide.role->flags & ROLE_HERE ? DROP_STALE_ROW : reason;
}

#endif
