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

/* describe_drop fills an event. It is a function of its own because drops are
 * rare, and because its type then carries the event's layout to the Go side.
 */
static __noinline void describe_drop(struct __sk_buff *skb, const struct packet *pkt, struct drop_event *event,
				     enum reason reason)
{
	__builtin_memset(event, 0, sizeof(*event));
	event->time = bpf_ktime_get_ns();
	event->src = pkt->src;
	event->dst = pkt->dst;
	event->vni = pkt->vni;
	event->ifindex = skb->ifindex;
	event->reason = reason;
	event->direction = pkt->direction;
	event->mark = skb->mark;
	event->sport = pkt->sport;
	event->dport = pkt->dport;
	event->proto = pkt->proto;
}

static __always_inline void report_drop(struct __sk_buff *skb, const struct packet *pkt, enum reason reason)
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
	describe_drop(skb, pkt, event, reason);
	bpf_ringbuf_submit(event, 0);
}

/* finish turns the reason into what the hook returns, and counts it. */
static __always_inline int finish(struct __sk_buff *skb, struct packet *pkt, enum reason reason)
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
		report_drop(skb, pkt, reason);
		return TC_ACT_SHOT;
	}
}

#endif
