/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Packets from the VPC to the outside. They are dropped unless the VPC allows egress,
 * and always if they are for the cluster itself.
 */
#ifndef ALIOTH_EGRESS_H
#define ALIOTH_EGRESS_H

#include "shadow.h"

#define ANY_VNI 0

static __always_inline enum reason closed_reason(const struct closed *closed)
{
	switch (closed->class) {
	case CLOSED_SHADOW:
		return DROP_EGRESS_SHADOW;
	case CLOSED_NODE:
	case CLOSED_BALANCER:
		return DROP_EGRESS_NODE;
	case CLOSED_DEFAULT_VPC:
		return DROP_EGRESS_DEFAULT_VPC;
	case CLOSED_SERVICE:
		return DROP_EGRESS_SERVICE;
	case CLOSED_LINK_LOCAL:
		return DROP_EGRESS_LINK_LOCAL;
	case CLOSED_MULTICAST:
		return DROP_EGRESS_MULTICAST;
	case CLOSED_UNLISTED:
		return DROP_EGRESS_UNLISTED;
	case CLOSED_METADATA:
		return DROP_EGRESS_METADATA;
	default:
		return DROP_EGRESS_DENIED;
	}
}

/* closed_to_all checks the ranges that are closed to every VPC without an exception.
 * The default VPC has one for nodes; a VPC has one for cloud metadata if own says so.
 */
static __always_inline enum reason closed_to_all(const struct closed *all, const struct closed *own,
						 enum vpc_flag flags)
{
	if (!all || ((all->class == CLOSED_NODE || all->class == CLOSED_BALANCER) && (flags & VPC_DEFAULT)))
		return UNDECIDED;
	if (all->class == CLOSED_METADATA && own && own->class == OPEN_METADATA)
		return UNDECIDED;
	return closed_reason(all);
}

static __always_inline enum reason closed_destination(const struct packet *pkt, enum vpc_flag flags)
{
	struct prefix_key key = { .prefixlen = VNI_BITS + 128, .vni = ANY_VNI, .ip = pkt->dst };
	struct closed *all = bpf_map_lookup_elem(&alioth_closed, &key), *own;
	enum reason reason;

	key.vni = pkt->vni;
	own = bpf_map_lookup_elem(&alioth_closed, &key);
	reason = closed_to_all(all, own, flags);
	if (reason)
		return reason;
	if (own && own->class != OPEN_LISTED && own->class != OPEN_METADATA)
		return closed_reason(own);
	/* Known nodes are closed even if no list has them. */
	if (!(flags & VPC_DEFAULT) && bpf_map_lookup_elem(&alioth_nodes, &key.ip))
		return DROP_EGRESS_NODE;
	return UNDECIDED;
}

/* closed_transport drops what a receiver could read as a tunnel packet, at any address. */
static __always_inline enum reason closed_transport(struct __sk_buff *skb, struct packet *pkt)
{
	enum reason reason = parse_l4(skb, pkt);

	if (reason)
		return reason;
	if (pkt->proto == IPPROTO_UDP && pkt->dport == alioth_config.tunnel_port)
		return DROP_EGRESS_TUNNEL_PORT;
	return UNDECIDED;
}

/* answers_outside reports whether a packet may be a reply to a client outside that has
 * reached the pod from its own address. Egress to this address may be closed. The host's
 * connection tracking decides whether the packet is a reply; this program drops packets that
 * open a flow.
 */
static __always_inline bool answers_outside(struct __sk_buff *skb, struct packet *pkt, enum reason closed)
{
	if (closed && closed != DROP_EGRESS_NODE && closed != DROP_EGRESS_DENIED && closed != DROP_EGRESS_UNLISTED)
		return false;
	if (closed_transport(skb, pkt))
		return false;
	if (pkt->proto == IPPROTO_TCP)
		return !pkt->fragment && (pkt->tcp_flags & (TCP_SYN | TCP_ACK)) != TCP_SYN;
	return pkt->proto == IPPROTO_UDP || is_icmp_error(pkt);
}

/* is_own_node_port reports whether a packet to a node is for a port that leads to a
 * service of the pod's own VPC, and the VPC's lists allow the node. All other ports of
 * the node stay closed. The host forwards a packet to its own address to that port's
 * backends only. A function of its own, for its stack frame.
 */
__noinline bool is_own_node_port(struct __sk_buff *skb, struct packet *pkt)
{
	struct prefix_key to = { .prefixlen = VNI_BITS + 128, .vni = ANY_VNI };
	struct node_port port = {};
	struct closed *closed;

	if (!pkt)
		return false;
	to.ip = pkt->dst;
	closed = bpf_map_lookup_elem(&alioth_closed, &to);
	if (closed && closed->class != CLOSED_NODE)
		return false;
	to.vni = pkt->vni;
	closed = bpf_map_lookup_elem(&alioth_closed, &to);
	if (closed && closed->class != OPEN_LISTED && closed->class != OPEN_METADATA)
		return false;
	if (closed_transport(skb, pkt))
		return false;
	if (pkt->fragment && pkt->proto == IPPROTO_TCP) /* as in reply_to_node */
		return false;
	port.vni = pkt->vni;
	port.family = pkt->family;
	port.port = pkt->dport;
	port.proto = pkt->proto;
	return bpf_map_lookup_elem(&alioth_node_ports, &port);
}

static __always_inline enum reason to_outside(struct __sk_buff *skb, struct packet *pkt, const struct interface *from)
{
	__u32 vni = pkt->vni; /* before Linux 6.2 a key has to be on the stack or in a map */
	struct vpc *vpc = bpf_map_lookup_elem(&alioth_vpcs, &vni);
	enum reason reason;

	if (!vpc || !(vpc->flags & (VPC_EGRESS | VPC_FRONTED)))
		return DROP_EGRESS_CLOSED;
	reason = closed_destination(pkt, vpc->flags);
	if (reason == DROP_EGRESS_NODE && (vpc->flags & VPC_EGRESS) && is_own_node_port(skb, pkt))
		return leave(skb, pkt, from, MARK_EGRESS);
	if ((reason || !(vpc->flags & VPC_EGRESS)) && (vpc->flags & VPC_FRONTED) && answers_outside(skb, pkt, reason))
		return leave(skb, pkt, from, 0);
	if (!(vpc->flags & VPC_EGRESS))
		return DROP_EGRESS_CLOSED;
	if (reason)
		return reason;
	reason = closed_transport(skb, pkt);
	if (reason)
		return reason;
	return leave(skb, pkt, from, vpc->flags & VPC_DEFAULT ? MARK_NODE : MARK_EGRESS);
}

#endif
