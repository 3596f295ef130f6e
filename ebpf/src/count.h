/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Counters and events, apart from the decisions. */
#ifndef ALIOTH_COUNT_H
#define ALIOTH_COUNT_H

#include "describe.h"
#include "flow.h"

/* At most one event per interface and reason in this time. */
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

/* count_drop counts a dropped packet by interface and VPC. The VNI of a packet from the
 * tunnel becomes part of the key only if its VPC is on this node.
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

/* describe_drop is a function of its own because drops are rare. */
static __noinline void describe_drop(struct __sk_buff *skb, const struct packet *pkt, struct packet_event *event,
				     enum reason reason, const struct addr *node)
{
	describe_packet(skb, pkt, event, reason, node);
}

static __always_inline void report_drop(struct __sk_buff *skb, const struct packet *pkt, enum reason reason,
					const struct addr *node)
{
	struct drop_gate_key key = { .ifindex = skb->ifindex, .reason = reason };
	__u64 now = bpf_ktime_get_ns();
	__u64 *last = bpf_map_lookup_elem(&alioth_drop_gate, &key);
	struct packet_event *event;

	if (last && now - *last < DROP_EVENT_INTERVAL_NS)
		return;
	bpf_map_update_elem(&alioth_drop_gate, &key, &now, BPF_ANY);
	event = bpf_ringbuf_reserve(&alioth_drops, sizeof(*event), 0);
	if (!event)
		return;
	describe_drop(skb, pkt, event, reason, node);
	bpf_ringbuf_submit(event, 0);
}

/* finish counts the packet by its reason, and returns the verdict of the hook. It makes drop
 * events for drops only, and flow events only while a client listens. node is the sender of a
 * packet from the tunnel, NULL for other packets.
 */
static __always_inline int finish(struct __sk_buff *skb, struct packet *pkt, enum reason reason,
				  const struct addr *node)
{
	count(reason, pkt->direction, skb->len - pkt->outer);
	switch (reason) {
	case FORWARDED_LOCAL:
	case FORWARDED_REMOTE:
	case FORWARDED_ROLE:
		tell_flow(skb, pkt, reason, node);
		return pkt->action;
	case RETURNED:
	case REPLIED:
	case REPLIED_TOO_BIG:
	case REPLIED_REFUSED:
		return pkt->action;
	case TO_STACK:
	case FROM_STACK:
		tell_flow(skb, pkt, reason, node);
		return TC_ACT_OK;
	default:
		count_drop(skb, pkt, reason);
		report_drop(skb, pkt, reason, node);
		return TC_ACT_SHOT;
	}
}

#endif
