/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Descriptions of single packets, for events. */
#ifndef ALIOTH_DESCRIBE_H
#define ALIOTH_DESCRIBE_H

#include "maps.h"
#include "parse.h"

/* describe_ends reads the ports too, which forwarding inside a VPC does not need. They
 * are 0 if they can't be read.
 */
static __always_inline void describe_ends(struct __sk_buff *skb, struct tuple *ends, const struct packet *pkt)
{
	bool ports = pkt->proto == IPPROTO_TCP || pkt->proto == IPPROTO_UDP;

	ends->src = pkt->src;
	ends->dst = pkt->dst;
	ends->sport = pkt->sport;
	ends->dport = pkt->dport;
	if (ends->sport || !ports || pkt->later || !within(pkt, pkt->l4, 2 * sizeof(ends->sport)))
		return;
	bpf_skb_load_bytes(skb, pkt->l4 + pkt->outer, &ends->sport, 2 * sizeof(ends->sport));
}

/* describe_tunnel adds the node that sent the packet, and the address at which it
 * arrived. Without a tunnel key, the outer headers were removed at the device of the
 * tunnel's IPv4 address.
 */
static __always_inline void describe_tunnel(struct __sk_buff *skb, struct packet_event *event, const struct addr *node)
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

static __always_inline void describe_packet(struct __sk_buff *skb, const struct packet *pkt, struct packet_event *event,
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

#endif
