// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Copyright The Alioth Authors. */

/* The programs. Each consists of a decision that returns a reason, and an accounting
 * step that turns the reason into the hook's verdict.
 */
#include "child.h"
#include "count.h"
#include "deliver.h"
#include "shadow.h"
#include "egress.h"
#include "guarded.h"
#include "maps_policy.h"
#include "outer_fragment.h"
#include "own_socket.h"
#include "neighbour.h"
#include "receive.h"
#include "role.h"
#include "scaled.h"
#include "service.h"
#include "socket.h"
#include "stale.h"

char alioth_license[] SEC("license") = "Dual BSD/GPL";

/* flooded returns the reason to drop a packet to a group: Alioth floods nothing. */
static __always_inline enum reason flooded(const struct packet *pkt)
{
	if (addr_is_multicast(&pkt->dst, pkt->family))
		return DROP_MULTICAST;
	if (pkt->family == FAMILY_V4 && addr_v4(&pkt->dst) == 0xffffffff)
		return DROP_BROADCAST;
	if (pkt->eth_dst[0] & 1)
		return pkt->eth_dst[0] == 0xff ? DROP_BROADCAST : DROP_MULTICAST;
	return UNDECIDED;
}

/* control handles packets that are not forwarded: neighbour discovery, and all group
 * traffic. It does not examine the headers of ordinary TCP and UDP.
 */
static __always_inline enum reason control(struct __sk_buff *skb, struct packet *pkt, const struct interface *from)
{
	enum reason reason;

	if (pkt->family == FAMILY_V4 || pkt->proto == IPPROTO_TCP || pkt->proto == IPPROTO_UDP)
		return flooded(pkt);
	reason = walk_extensions(skb, pkt);
	if (reason)
		return reason;
	reason = link_protocol(skb, pkt);
	if (reason == REPLIED)
		return answer_solicitation(skb, pkt, from);
	return reason ? reason : flooded(pkt);
}

/* missed decides about a destination outside of the VPC. A function of its own, for its
 * stack frame.
 */
__noinline enum reason missed(struct __sk_buff *skb, struct packet *pkt, const struct interface *from)
{
	enum reason reason;

	if (!pkt || !from)
		return DROP_REWRITE_FAILED;
	if (from->flags & INTERFACE_NODE)
		return DROP_OUTSIDE_DEFAULT_VPC;
	reason = walk_extensions(skb, pkt);
	if (reason)
		return reason;
	/* The host's stack might follow a route in the packet's options. */
	if (pkt->options)
		return DROP_EGRESS_OPTIONS;
	if (pkt->later)
		return leave_after_first(skb, pkt, from);
	if (is_node_shadow(pkt))
		return reply_to_node(skb, pkt, from);
	reason = shared_service(skb, pkt, from);
	if (reason)
		return reason;
	return to_outside(skb, pkt, from);
}

/* to_vpc decides about a packet of an interface by its destination. */
static __always_inline enum reason to_vpc(struct __sk_buff *skb, struct packet *pkt, const struct interface *from)
{
	struct address *to = lookup_address(pkt->vni, &pkt->dst);
	enum reason reason;

	if (!to)
		reason = by_role(skb, pkt);
	else if (to->kind == ADDRESS_LOCAL)
		return deliver_local(skb, pkt, to->ifindex);
	else if (to->kind == ADDRESS_REMOTE)
		reason = by_row(pkt, to, CLASS_DIRECT);
	else if (to->kind == ADDRESS_OUTSIDE)
		return DROP_HELD_OUTSIDE;
	else
		return echo_here(skb, pkt, from);
	if (goes_on(reason))
		reason = send_on(skb, pkt, from->flags & INTERFACE_NODE);
	if (reason == DROP_TOO_BIG && pkt->limit)
		return tell_too_big(skb, pkt, from);
	return reason ? reason : missed(skb, pkt, from);
}

static __always_inline enum reason from_pod(struct __sk_buff *skb, struct packet *pkt)
{
	__u32 ifindex = skb->ifindex;
	struct interface *from = bpf_map_lookup_elem(&alioth_interfaces, &ifindex);
	enum reason reason;

	if (!from)
		return DROP_UNKNOWN_INTERFACE;
	pkt->vni = from->vni;
	pkt->origin = origin_of(from);
	reason = parse_eth(skb, pkt);
	if (reason)
		return reason;
	if (!mac_equal(pkt->eth_src, from->mac))
		return DROP_SPOOFED_MAC;
	if (pkt->ethertype == bpf_htons(ETH_P_ARP))
		return answer_arp(skb, pkt, from);
	reason = parse_ip(skb, pkt);
	if (reason)
		return reason;
	if (!as_framed(skb, pkt))
		return DROP_BAD_HEADER;
	reason = control(skb, pkt, from);
	if (reason)
		return reason;
	if (!addr_equal(&pkt->src, own_ip(from, pkt->family)) || addr_is_zero(&pkt->src))
		return DROP_SPOOFED_IP;
	if (is_icmp(pkt)) {
		reason = check_error(skb, pkt, from);
		if (reason)
			return reason;
	}
	if (from->flags & INTERFACE_SERVICES) {
		reason = to_scaled(skb, pkt, from);
		if (reason == REPLIED)
			return echo_here(skb, pkt, from);
	}
	if (!reason)
		reason = to_vpc(skb, pkt, from);
	return is_refused(reason) ? refuse(skb, pkt, from, reason) : reason;
}

static __always_inline enum reason to_pod(struct __sk_buff *skb, struct packet *pkt)
{
	__u32 ifindex = skb->ifindex;
	struct interface *to = bpf_map_lookup_elem(&alioth_interfaces, &ifindex);
	const struct addr *shadow, *ip;
	enum reason reason;

	if (!to)
		return DROP_UNKNOWN_INTERFACE;
	pkt->vni = to->vni;
	reason = parse_eth(skb, pkt);
	if (reason)
		return reason;
	if (by_packet_socket(skb) || opens_unled(skb))
		return DROP_SHADOW_SOCKET;
	if (pkt->ethertype == bpf_htons(ETH_P_ARP))
		return DROP_NOT_SHADOW;
	reason = parse_ip(skb, pkt);
	if (reason)
		return reason;
	shadow = own_shadow(to, pkt->family);
	ip = own_ip(to, pkt->family);
	if (addr_is_zero(shadow) || !addr_equal(&pkt->dst, shadow))
		return is_report(pkt) ? DROP_MLD : DROP_NOT_SHADOW;
	reason = walk_extensions(skb, pkt);
	if (reason)
		return reason;
	reason = reveal(skb, pkt, ip);
	if (reason)
		return reason;
	if (set_addr(skb, pkt, SIDE_DST, ip) || set_macs(skb, to->mac, virtual_mac))
		return DROP_REWRITE_FAILED;
	return FROM_STACK;
}

/* outer_source reads the tunnel key: the sending node and the VNI. */
static __always_inline enum reason outer_source(struct __sk_buff *skb, struct packet *pkt, struct addr *node)
{
	struct bpf_tunnel_key key = {};

	if (!bpf_skb_get_tunnel_key(skb, &key, sizeof(key), 0))
		addr_from_v4(node, bpf_htonl(key.remote_ipv4));
	else if (!bpf_skb_get_tunnel_key(skb, &key, sizeof(key), BPF_F_TUNINFO_IPV6))
		__builtin_memcpy(node->b, key.remote_ipv6, 16);
	else
		return DROP_NO_TUNNEL_KEY;
	pkt->vni = key.tunnel_id;
	return UNDECIDED;
}

/* group_or_neighbour drops packets from the tunnel that no node ever sends into it. */
static __always_inline enum reason group_or_neighbour(struct __sk_buff *skb, struct packet *pkt)
{
	enum reason reason;

	if (flooded(pkt))
		return DROP_TUNNEL_FLOOD;
	if (pkt->family == FAMILY_V4 || pkt->proto == IPPROTO_TCP || pkt->proto == IPPROTO_UDP)
		return UNDECIDED;
	reason = walk_extensions(skb, pkt);
	if (reason)
		return reason;
	return link_protocol(skb, pkt) ? DROP_TUNNEL_FLOOD : UNDECIDED;
}

/* sent_by_node decides about the inner packet of a known node. present: its VPC is on this
 * node.
 */
static __always_inline enum reason sent_by_node(struct __sk_buff *skb, struct packet *pkt, const struct addr *node,
						bool present)
{
	enum reason reason = parse_eth(skb, pkt);

	if (reason)
		return reason;
	if (pkt->ethertype == bpf_htons(ETH_P_ARP))
		return DROP_TUNNEL_FLOOD;
	reason = parse_ip(skb, pkt);
	if (reason)
		return reason;
	reason = group_or_neighbour(skb, pkt);
	if (reason)
		return reason;
	return receive(skb, pkt, node, present);
}

static __always_inline enum reason from_tunnel(struct __sk_buff *skb, struct packet *pkt, struct addr *node)
{
	enum reason reason = outer_source(skb, pkt, node);

	if (reason)
		return reason;
	if (!bpf_map_lookup_elem(&alioth_nodes, node))
		return DROP_UNKNOWN_NODE;
	return sent_by_node(skb, pkt, node, bpf_map_lookup_elem(&alioth_vpcs, &pkt->vni));
}

/* The two programs of an interface are filters of its clsact qdisc. On a netkit
 * pair alioth_from_pod runs while the pod's end sends, where verdicts have the
 * same values.
 */
SEC("tc")
int alioth_from_pod(struct __sk_buff *skb)
{
	struct packet pkt;

	see(skb, &pkt, DIRECTION_FROM_POD);
	return finish(skb, &pkt, from_pod(skb, &pkt), 0);
}

SEC("tc")
int alioth_to_pod(struct __sk_buff *skb)
{
	struct packet pkt;

	/* alioth_from_pod has decided about it, and counted it. */
	if (skb->mark == MARK_DELIVERED && !by_packet_socket(skb))
		return TC_ACT_OK;
	see(skb, &pkt, DIRECTION_TO_POD);
	return finish(skb, &pkt, to_pod(skb, &pkt), 0);
}

SEC("tcx/ingress")
int alioth_from_tunnel(struct __sk_buff *skb)
{
	struct addr node = {};
	struct packet pkt;

	see(skb, &pkt, DIRECTION_FROM_TUNNEL);
	return finish(skb, &pkt, from_tunnel(skb, &pkt, &node), &node);
}

/* Packets that alioth_from_underlay does not handle go on to the host's stack and the
 * tunnel's device, and so to alioth_from_tunnel.
 */
SEC("tcx/ingress")
int alioth_from_underlay(struct __sk_buff *skb)
{
	struct packet pkt;
	struct addr node;

	see(skb, &pkt, DIRECTION_FROM_TUNNEL);
	if (is_reflected(skb) && forges(skb, false))
		return finish(skb, &pkt, DROP_FORGED_NODE, 0);
	if (!pop_outer(skb, &pkt, &node)) {
		if (skb->protocol == bpf_htons(ETH_P_ARP) || skb->protocol == bpf_htons(ETH_P_IPV6))
			return announce(skb);
		return TCX_NEXT;
	}
	return finish(skb, &pkt, sent_by_node(skb, &pkt, &node, true), &node);
}

/* by_node decides about a packet of one of the node's own sockets. Packets of IP sockets
 * to the tunnel's port are dropped by the host's rules, unless they have the mark that
 * those rules accept.
 */
static __always_inline enum reason by_node(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk || (sk->family != AF_PACKET && (skb->mark & MARK_MASK) != MARK_TUNNELED) || !is_own(skb))
		return UNDECIDED;
	return is_for_tunnel(skb) && !is_encapsulated(skb) ? DROP_TUNNEL_SOCKET : UNDECIDED;
}

/* alioth_to_underlay examines packets of the node's sockets and of pods' interfaces that
 * are derived from the device.
 */
SEC("tcx/egress")
int alioth_to_underlay(struct __sk_buff *skb)
{
	struct packet pkt;
	enum reason reason = by_node(skb);

	if (!reason && has_children(skb) && by_child(skb) && forges(skb, in_vlan(skb)))
		reason = DROP_FORGED_NODE;
	if (!reason)
		return TCX_NEXT;
	see(skb, &pkt, DIRECTION_TO_TUNNEL);
	return finish(skb, &pkt, reason, 0);
}

SEC("tcx/ingress")
int alioth_fragment(struct __sk_buff *skb)
{
	struct packet pkt;

	see(skb, &pkt, DIRECTION_TO_TUNNEL);
	return finish(skb, &pkt, fragmented(skb, &pkt), 0);
}

SEC("cgroup/connect4")
int alioth_connect4(struct bpf_sock_addr *ctx)
{
	return connect4(ctx);
}

SEC("cgroup/connect6")
int alioth_connect6(struct bpf_sock_addr *ctx)
{
	return connect6(ctx);
}

/* At the cgroup of pods: its programs run before the programs of the root. */
SEC("cgroup/connect4")
int alioth_guard4(struct bpf_sock_addr *ctx)
{
	return guard4(ctx);
}

SEC("cgroup/connect6")
int alioth_guard6(struct bpf_sock_addr *ctx)
{
	return guard6(ctx);
}

SEC("cgroup/sendmsg4")
int alioth_sendmsg4(struct bpf_sock_addr *ctx)
{
	return sendmsg4(ctx);
}

SEC("cgroup/sendmsg6")
int alioth_sendmsg6(struct bpf_sock_addr *ctx)
{
	return sendmsg6(ctx);
}

SEC("cgroup/recvmsg4")
int alioth_recvmsg4(struct bpf_sock_addr *ctx)
{
	return recvmsg4(ctx);
}

SEC("cgroup/recvmsg6")
int alioth_recvmsg6(struct bpf_sock_addr *ctx)
{
	return recvmsg6(ctx);
}

SEC("cgroup/getpeername4")
int alioth_getpeername4(struct bpf_sock_addr *ctx)
{
	return getpeername4(ctx);
}

SEC("cgroup/getpeername6")
int alioth_getpeername6(struct bpf_sock_addr *ctx)
{
	return getpeername6(ctx);
}

/* Runs once for each UDP socket of the daemon's network namespace while it reads. */
SEC("iter/udp")
int alioth_stale(struct bpf_iter__udp *ctx)
{
	struct udp_sock *udp = ctx->udp_sk;
	struct socket *notes;

	if (!udp) /* behind the last socket */
		return 0;
	notes = bpf_sk_storage_get(&alioth_sockets, udp, 0, 0);
	if (notes)
		report_stale(ctx->meta, &udp->inet.sk, notes);
	return 0;
}
