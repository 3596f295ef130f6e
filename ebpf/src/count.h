/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Accounting, kept apart from the decisions. */
#ifndef ALIOTH_COUNT_H
#define ALIOTH_COUNT_H

#include "maps.h"
#include "parse.h"

/* One event per interface and reason in this time. */
#define DROP_EVENT_INTERVAL_NS 1000000000ULL

static __always_inline void count(enum reason reason, enum direction direction, __u32 bytes)
{
	__u32 index = reason * DIRECTION_LEN + direction;
	struct counter *counter = bpf_map_lookup_elem(&alioth_counters, &index);

	/* The array has a slot for every pair, so this is never NULL. */
	if (!counter)
		return;
	counter->packets++;
	counter->bytes += bytes;
}

/* count_drop counts whose packet is dropped. What a packet from the tunnel says
 * of its VPC makes a key only if that VPC is here.
 */
static __noinline int count_drop(struct __sk_buff *skb, const struct packet *pkt, enum reason reason)
{
	struct drop_key key = { .ifindex = skb->ifindex, .reason = reason };
	struct counter none = {}, *counter;
	__u32 vni;

	if (!pkt)
		return 0;
	vni = pkt->vni;
	key.direction = pkt->direction;
	if (bpf_map_lookup_elem(&alioth_vpcs, &vni))
		key.vni = vni;
	counter = bpf_map_lookup_elem(&alioth_drop_counters, &key);
	if (!counter) {
		bpf_map_update_elem(&alioth_drop_counters, &key, &none, BPF_NOEXIST);
		counter = bpf_map_lookup_elem(&alioth_drop_counters, &key);
	}
	if (!counter)
		return 0;
	counter->packets++;
	counter->bytes += skb->len - pkt->outer;
	return 0;
}

/* describe_ends reads the ports too, which forwarding inside a VPC does not need. */
static __always_inline void describe_ends(struct __sk_buff *skb, struct tuple *ends, const struct packet *pkt)
{
	bool ports = pkt->proto == IPPROTO_TCP || pkt->proto == IPPROTO_UDP;
	__be16 at_l4[2];

	ends->src = pkt->src;
	ends->dst = pkt->dst;
	ends->sport = pkt->sport;
	ends->dport = pkt->dport;
	if (ends->sport || !ports || !pkt->l4 || pkt->later || pkt->outer)
		return;
	if (bpf_skb_load_bytes(skb, pkt->l4, at_l4, sizeof(at_l4)))
		return;
	ends->sport = at_l4[0];
	ends->dport = at_l4[1];
}

/* describe_tunnel adds which node sent the packet to which address. Without a
 * tunnel key, it was popped on the device of the tunnel's IPv4 address.
 */
static __always_inline void describe_tunnel(struct __sk_buff *skb, struct drop_event *event, const struct addr *node)
{
	struct bpf_tunnel_key key = {};

	event->outer_src = *node;
	if (!bpf_skb_get_tunnel_key(skb, &key, sizeof(key), 0))
		addr_from_v4(&event->outer_dst, bpf_htonl(key.local_ipv4));
	else if (!bpf_skb_get_tunnel_key(skb, &key, sizeof(key), BPF_F_TUNINFO_IPV6))
		__builtin_memcpy(event->outer_dst.b, key.local_ipv6, 16);
	else if (!addr_is_zero(node))
		addr_from_config(&event->outer_dst, &alioth_config.tunnel_source[FAMILY_V4]);
}

/* describe_drop fills an event. It is a function of its own because drops are
 * rare, and because its type then carries the event's layout to the Go side.
 */
static __noinline void describe_drop(struct __sk_buff *skb, const struct packet *pkt, struct drop_event *event,
				     enum reason reason, const struct addr *node)
{
	__builtin_memset(event, 0, sizeof(*event));
	event->time = bpf_ktime_get_ns();
	describe_ends(skb, &event->came, pkt);
	if (pkt->translated) {
		event->went = event->came;
		event->came = pkt->came;
	}
	if (node)
		describe_tunnel(skb, event, node);
	event->vni = pkt->vni;
	event->ifindex = skb->ifindex;
	event->reason = reason;
	event->direction = pkt->direction;
	event->mark = skb->mark;
	event->proto = pkt->proto;
}

static __always_inline void report_drop(struct __sk_buff *skb, const struct packet *pkt, enum reason reason,
					const struct addr *node)
{
	struct drop_gate_key key = { .ifindex = skb->ifindex, .reason = reason };
	__u64 now = bpf_ktime_get_ns();
	__u64 *last = bpf_map_lookup_elem(&alioth_drop_gate, &key);
	struct drop_event *event;

	if (last && now - *last < DROP_EVENT_INTERVAL_NS)
		return;
	bpf_map_update_elem(&alioth_drop_gate, &key, &now, BPF_ANY);
	event = bpf_ringbuf_reserve(&alioth_drops, sizeof(*event), 0);
	if (!event)
		return;
	describe_drop(skb, pkt, event, reason, node);
	bpf_ringbuf_submit(event, 0);
}

/* finish turns the reason into what the hook returns, and counts it. Whatever
 * is said of a drop beyond its reason is said on the way of drops only. node has
 * sent a packet that came from the tunnel, and is NULL for others.
 */
static __always_inline int finish(struct __sk_buff *skb, struct packet *pkt, enum reason reason,
				  const struct addr *node)
{
	count(reason, pkt->direction, skb->len - pkt->outer);
	switch (reason) {
	case FORWARDED_LOCAL:
	case FORWARDED_REMOTE:
	case REPLIED:
	case REPLIED_TOO_BIG:
		return pkt->action;
	case TO_STACK:
	case FROM_STACK:
		return TC_ACT_OK;
	default:
		count_drop(skb, pkt, reason);
		report_drop(skb, pkt, reason, node);
		return TC_ACT_SHOT;
	}
}

#endif
