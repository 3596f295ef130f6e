/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Packets of pods' interfaces that are derived from a device on the node's network, such
 * as macvlan and ipvlan. Such a pod is a host of that network. The functions here find
 * what it sends in the name of a node, or into a tunnel.
 */
#ifndef ALIOTH_CHILD_H
#define ALIOTH_CHILD_H

#include "frame.h"
#include "maps.h"
#include "neighbour.h"
#include "own_socket.h"

#define SKB_DST_NOREF 1UL
#define ARP_SENDER_MAC 8
#define ARP_SENDER_IP 14
#define ND_TARGET 8
#define VLAN_ID_MASK 0xfff

/* has_children reports whether interfaces are derived from the packet's device: each kind
 * of them receives by the one handler that a device can have. A bridge and a bond have
 * the handlers of their ports, whose packets are theirs.
 */
static __always_inline bool has_children(struct __sk_buff *skb)
{
	struct sk_buff___kernel *kernel = (void *)skb;

	return BPF_CORE_READ(kernel, dev, rx_handler);
}

/* by_child reports whether a packet that leaves a device with children is of one of them. A child
 * of another namespace hands its packets down as they are. So a packet that a pod's stack has
 * routed still has the route, along a device of the pod. A packet of a pod's packet socket has
 * none, and was received from no device. Its segments have lost the socket.
 *
 * Packets without a route that a device of the node has received were redirected by a program.
 * Packets from netkit pairs count as received from none, and the program that redirects them adds
 * outer headers.
 */
static __always_inline bool by_child(struct __sk_buff *skb)
{
	struct sk_buff___kernel *kernel = (void *)skb;
	struct dst_entry___kernel *route = (void *)(BPF_CORE_READ(kernel, _skb_refdst) & ~SKB_DST_NOREF);

	if (route)
		return BPF_CORE_READ(route, dev, nd_net.net, net_cookie) != alioth_config.netns_cookie;
	return !skb->ingress_ifindex && !is_own(skb) && !is_encapsulated(skb);
}

static __always_inline bool is_node(const struct addr *ip)
{
	return bpf_map_lookup_elem(&alioth_nodes, ip) || bpf_map_lookup_elem(&alioth_own, ip);
}

static __always_inline bool is_node_v4(struct __sk_buff *skb, __u32 offset)
{
	struct addr ip;
	__be32 v4 = 0;

	bpf_skb_load_bytes(skb, offset, &v4, sizeof(v4));
	addr_from_v4(&ip, v4);
	return is_node(&ip);
}

static __always_inline bool is_node_v6(struct __sk_buff *skb, __u32 offset)
{
	struct addr ip = {};

	bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip));
	return is_node(&ip);
}

/* is_own_arp reports whether an ARP packet without a socket is the kernel's own: it says
 * that an address of this node is at the node's device. Said by anybody, it is true.
 */
static __always_inline bool is_own_arp(struct __sk_buff *skb, const struct frame *frame)
{
	struct addr ip;
	__be32 v4 = 0;
	__u8 mac[6] = {}, own[6];

	bpf_skb_load_bytes(skb, frame->l3 + ARP_SENDER_IP, &v4, sizeof(v4));
	bpf_skb_load_bytes(skb, frame->l3 + ARP_SENDER_MAC, mac, sizeof(mac));
	addr_from_v4(&ip, v4);
	own_mac(own);
	return !skb->sk && mac_equal(mac, own) && bpf_map_lookup_elem(&alioth_own, &ip);
}

/* as_node reports whether a frame has a node's address as its sender: the source of IP,
 * the sender of ARP, or the target of an advertisement or redirect (RFC 4861 sections 4.4
 * and 4.5).
 */
static __always_inline bool as_node(struct __sk_buff *skb, const struct frame *frame)
{
	__u8 type;

	if (frame->type == bpf_htons(ETH_P_ARP))
		return is_node_v4(skb, frame->l3 + ARP_SENDER_IP) && !is_own_arp(skb, frame);
	if (frame->type == bpf_htons(ETH_P_IP))
		return is_node_v4(skb, frame->l3 + offsetof(struct iphdr, saddr));
	if (frame->type != bpf_htons(ETH_P_IPV6))
		return false;
	if (is_node_v6(skb, frame->l3 + offsetof(struct ipv6hdr, saddr)))
		return true;
	type = read_u8(skb, frame->l4);
	return frame->next == IPPROTO_ICMPV6 && (type == ND_NEIGHBOUR_ADVERTISEMENT || type == ND_REDIRECT) &&
	       is_node_v6(skb, frame->l4 + ND_TARGET);
}

/* into_tunnel reports whether a frame is UDP to the port of the tunnel or of VXLAN links. */
static __always_inline bool into_tunnel(struct __sk_buff *skb, const struct frame *frame)
{
	__be16 port;

	if (frame->next != IPPROTO_UDP)
		return false;
	port = read_be16(skb, frame->l4 + 2);
	return port == alioth_config.tunnel_port || (alioth_config.link_port && port == alioth_config.link_port);
}

/* in_vlan reports whether a VLAN device has tagged the packet. VLAN 0 does not count as a tag. */
static __always_inline bool in_vlan(struct __sk_buff *skb)
{
	return skb->vlan_present && skb->vlan_tci & VLAN_ID_MASK;
}

/* forges reports whether a frame is sent in the name of a node, or into a tunnel. tagged: a VLAN
 * device has tagged it, so its network differs, and hosts there may have any address. Should the
 * nodes be there too, such a frame still enters no VPC.
 */
static __noinline bool forges(struct __sk_buff *skb, bool tagged)
{
	struct frame frame;

	read_frame(skb, &frame);
	if (tagged)
		return as_node(skb, &frame) && (frame.endless || into_tunnel(skb, &frame));
	return frame.endless || as_node(skb, &frame) || into_tunnel(skb, &frame);
}

/* is_reflected reports whether a received frame was sent by an interface of type ipvlan of
 * the same device, to the node: such interfaces have its address.
 */
static __always_inline bool is_reflected(struct __sk_buff *skb)
{
	struct ethhdr *eth = (void *)(long)skb->data;

	return (void *)(eth + 1) <= (void *)(long)skb->data_end && mac_equal(eth->h_dest, eth->h_source);
}

#endif
