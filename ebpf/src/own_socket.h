/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Packets of the node's own sockets to a pod's shadow address or to the tunnel's port.
 * The host's rules see packets of IP sockets, and mark those that open a flow to a
 * shadow address. The functions here check the socket of such packets, and the packets
 * of packet sockets, which no rule sees.
 */
#ifndef ALIOTH_OWN_SOCKET_H
#define ALIOTH_OWN_SOCKET_H

#include "maps.h"
#include "parse.h"
#include <bpf/bpf_core_read.h>

#define AF_PACKET 17
#define VLAN_HLEN 4
#define MAX_TAGS 2

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

/* read_u8 and read_be16 return 0 for bytes behind the end of the frame. */
static __always_inline __u8 read_u8(struct __sk_buff *skb, __u32 offset)
{
	__u8 value = 0;

	bpf_skb_load_bytes(skb, offset, &value, sizeof(value));
	return value;
}

static __always_inline __be16 read_be16(struct __sk_buff *skb, __u32 offset)
{
	__be16 value = 0;

	bpf_skb_load_bytes(skb, offset, &value, sizeof(value));
	return value;
}

/* after_extensions skips the IPv6 extension headers as a receiver does that finds UDP
 * behind them, and returns the offset behind the last of them.
 */
static __always_inline __u32 after_extensions(struct __sk_buff *skb, __u32 offset, __u8 *next)
{
	for (int i = 0; i < 6; i++) {
		__u8 now = *next;

		if (now != NEXTHDR_HOP && now != NEXTHDR_ROUTING && now != NEXTHDR_DEST && now != NEXTHDR_FRAGMENT)
			break;
		*next = read_u8(skb, offset);
		offset += now == NEXTHDR_FRAGMENT ? 8 : (read_u8(skb, offset + 1) + 1) * 8;
	}
	return offset;
}

/* is_for_tunnel reports whether a frame is UDP to the tunnel's port. It reads the bytes
 * alone, since the sender at a packet socket chooses the protocol that the kernel
 * assumes. Later fragments do not count: a receiver drops them without the first one.
 */
static __noinline bool is_for_tunnel(struct __sk_buff *skb)
{
	__u32 offset = ETH_HLEN - 2;
	__be16 type = read_be16(skb, offset);
	__u8 next = 0;

	for (int i = 0; i < MAX_TAGS; i++) {
		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		offset += VLAN_HLEN;
		type = read_be16(skb, offset);
	}
	offset += 2;
	if (type == bpf_htons(ETH_P_IP)) {
		next = read_u8(skb, offset + 9);
		if (read_be16(skb, offset + 6) & bpf_htons(0x1fff))
			return false;
		offset += (read_u8(skb, offset) & 0xf) * 4;
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		next = read_u8(skb, offset + 6);
		offset = after_extensions(skb, offset + sizeof(struct ipv6hdr), &next);
	}
	return next == IPPROTO_UDP && read_be16(skb, offset + 2) == alioth_config.tunnel_port;
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
