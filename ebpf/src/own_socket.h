/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Packets of the node's own sockets to a pod's shadow address or to the tunnel's port. The host's
 * rules see packets of IP sockets, and mark packets that open a flow to a shadow address. The
 * functions here check the socket of such packets, and the packets of packet sockets, which no
 * rule sees.
 */
#ifndef ALIOTH_OWN_SOCKET_H
#define ALIOTH_OWN_SOCKET_H

#include "frame.h"
#include "maps.h"
#include <bpf/bpf_core_read.h>

#define AF_PACKET 17

/* is_own reports whether the socket that sent a packet is in the node's own network
 * namespace. A packet of a pod keeps its socket on its path through the node.
 */
static __always_inline bool is_own(struct __sk_buff *skb)
{
	struct sk_buff___kernel *kernel = (void *)skb;

	return BPF_CORE_READ(kernel, sk, __sk_common.skc_net.net, net_cookie) == alioth_config.netns_cookie;
}

static __always_inline bool by_packet_socket(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	return sk && sk->family == AF_PACKET && is_own(skb);
}

/* opens_unled reports whether a packet to a shadow address opens a flow of a socket
 * that alioth_connect4 or alioth_connect6 has not directed there.
 */
static __always_inline bool opens_unled(struct __sk_buff *skb)
{
	struct bpf_sock *sk;

	if ((skb->mark & MARK_MASK) != MARK_OPENING)
		return false;
	sk = skb->sk;
	if (!sk) /* received from another host; the mark is not of the host's rules */
		return false;
	sk = bpf_sk_fullsock(sk);
	return !sk || !bpf_sk_storage_get(&alioth_led, sk, 0, 0);
}

/* is_for_tunnel reports whether a frame is UDP to the tunnel's port. */
static __noinline bool is_for_tunnel(struct __sk_buff *skb)
{
	struct frame frame;

	read_frame(skb, &frame);
	return frame.next == IPPROTO_UDP && read_be16(skb, frame.l4 + 2) == alioth_config.tunnel_port;
}

/* is_encapsulated reports whether a tunnel device or a program has added outer headers.
 * The flag is the kernel's own: no socket can set it.
 */
static __always_inline bool is_encapsulated(struct __sk_buff *skb)
{
	struct sk_buff___kernel *kernel = (void *)skb;

	return BPF_CORE_READ_BITFIELD_PROBED(kernel, encapsulation);
}

#endif
