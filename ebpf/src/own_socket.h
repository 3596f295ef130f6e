/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* What sockets of the node's own namespace send past the doors: to a pod's shadow,
 * and to the port of the tunnel. The host's rules see what sockets of IP protocols
 * send, and say by a mark which packets open a flow to a shadow; here is told whose
 * socket that is, and what a packet socket sends, which no rule sees.
 */
#ifndef ALIOTH_OWN_SOCKET_H
#define ALIOTH_OWN_SOCKET_H

#include "maps.h"
#include "parse.h"
#include <bpf/bpf_core_read.h>

#define AF_PACKET 17
#define VLAN_HLEN 4
#define MAX_TAGS 2

/* is_own tells whether the socket that has sent a packet is in the node's own network
 * namespace. A packet keeps the socket of a pod on its way through the node.
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

/* opens_unled tells whether a packet to a shadow opens a flow of a socket that nobody
 * has led there.
 */
static __always_inline bool opens_unled(struct __sk_buff *skb)
{
	struct bpf_sock *sk;

	if ((skb->mark & MARK_MASK) != MARK_OPENING)
		return false;
	sk = skb->sk;
	if (!sk) /* it comes from elsewhere, with somebody's mark */
		return false;
	sk = bpf_sk_fullsock(sk);
	return !sk || !bpf_sk_storage_get(&alioth_led, sk, 0, 0);
}

/* read_u8 and read_be16 return 0 for what a frame does not have. */
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

/* after_extensions skips the extension headers of IPv6 as a receiver does that finds
 * UDP behind them; what it returns is behind the last header that is one.
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

/* is_for_tunnel tells whether a frame is UDP to the port of the tunnel, by its bytes
 * alone: what the kernel takes it for is for the sender of a packet socket to say. A
 * later fragment is none, and nothing without its first.
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

/* Of the kernel's own: what a tunnel's device or a program has put headers around.
 * No socket can say so.
 */
static __always_inline bool is_encapsulated(struct __sk_buff *skb)
{
	struct sk_buff___kernel *kernel = (void *)skb;

	return BPF_CORE_READ_BITFIELD_PROBED(kernel, encapsulation);
}

#endif
