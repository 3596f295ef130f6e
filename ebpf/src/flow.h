/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Events of flows, for clients that listen. Dropped packets make none: so no flow is
 * reported under a forged address.
 */
#ifndef ALIOTH_FLOW_H
#define ALIOTH_FLOW_H

#include "deliver.h"
#include "describe.h"
#include "share.h"

/* At most one event per flow in this time. */
#define FLOW_EVENT_INTERVAL_NS 10000000000ULL

/* Limit per interface: 20 events a second, and up to 100 at once. */
#define FLOW_SHARE_INTERVAL_NS 50000000ULL
#define FLOW_SHARE_BURST_NS (100 * FLOW_SHARE_INTERVAL_NS)

/* describe_way adds the two nodes of a packet that goes into the tunnel; of one that a
 * bouncer or divider sends on, the next node alone, beside the one that sent it.
 */
static __always_inline void describe_way(struct packet_event *event, const struct packet *pkt)
{
	event->outer_dst = pkt->next;
	if (pkt->direction == DIRECTION_FROM_TUNNEL)
		return;
	if (is_mapped(&pkt->next))
		addr_from_config(&event->outer_src, &alioth_config.tunnel_source[FAMILY_V4]);
	else
		addr_from_config(&event->outer_src, &alioth_config.tunnel_source[FAMILY_V6]);
}

/* note_flow fills the key of the packet's flow. */
static __always_inline void note_flow(struct __sk_buff *skb, struct flow *flow, const struct packet *pkt,
				      enum reason reason)
{
	if (pkt->translated)
		flow->came = pkt->came;
	else
		describe_ends(skb, &flow->came, pkt);
	flow->vni = pkt->vni;
	flow->ifindex = skb->ifindex;
	flow->reason = reason;
	flow->direction = pkt->direction;
	flow->proto = pkt->proto;
}

/* report_flow makes an event for a packet, unless its flow had one recently. Programs
 * must not call it while it runs on the same CPU: each CPU has one set of notes.
 */
static __noinline int report_flow(struct __sk_buff *skb, const struct packet *pkt, enum reason reason,
				  const struct addr *node)
{
	__u64 now = bpf_ktime_get_ns(), *last;
	struct flow_notes *notes;
	__u32 zero = 0;

	/* The client has stopped listening. */
	if (now > alioth_flows_until) {
		alioth_flows_until = 0;
		return 0;
	}
	notes = bpf_map_lookup_elem(&alioth_flow_notes, &zero);
	if (!notes || !pkt)
		return 0;
	note_flow(skb, &notes->flow, pkt, reason);
	last = bpf_map_lookup_elem(&alioth_flow_gate, &notes->flow);
	if (last && now - *last < FLOW_EVENT_INTERVAL_NS)
		return 0;
	notes->share.ifindex = skb->ifindex;
	notes->share.vni = pkt->vni;
	if (!take_share(&alioth_flow_share, &notes->share, now, FLOW_SHARE_INTERVAL_NS, FLOW_SHARE_BURST_NS))
		return 0;
	describe_packet(skb, pkt, &notes->event, reason, node);
	if (reason == FORWARDED_REMOTE || reason == FORWARDED_ROLE)
		describe_way(&notes->event, pkt);
	if (!bpf_ringbuf_output(&alioth_flows, &notes->event, sizeof(notes->event), 0))
		bpf_map_update_elem(&alioth_flow_gate, &notes->flow, &now, BPF_ANY);
	return 0;
}

/* tell_flow costs one comparison while no client listens. Packets that are fragmented
 * for the tunnel had their event before that.
 */
static __always_inline void tell_flow(struct __sk_buff *skb, const struct packet *pkt, enum reason reason,
				      const struct addr *node)
{
	if (alioth_flows_until && pkt->direction != DIRECTION_TO_TUNNEL)
		report_flow(skb, pkt, reason, node);
}

#endif
