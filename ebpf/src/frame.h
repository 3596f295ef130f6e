/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Frames whose sender may be hostile, read by their bytes alone: the sender at a packet
 * socket chooses the protocol that the kernel assumes.
 */
#ifndef ALIOTH_FRAME_H
#define ALIOTH_FRAME_H

#include "maps.h"
#include "parse.h"

#define VLAN_HLEN 4
#define MAX_TAGS 2

/* Offsets of the first bytes of headers. */
struct frame {
	__be16 type; /* behind the tags */
	__u8 next; /* the protocol at l4; 0 if the frame has none, as a later fragment */
	bool endless; /* more tags or extension headers than are read */
	__u32 l3;
	__u32 l4;
};

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

static __always_inline bool is_tag(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

/* after_extensions moves l4 behind the IPv6 extension headers. */
static __always_inline void after_extensions(struct __sk_buff *skb, struct frame *frame)
{
	for (int i = 0; i < MAX_EXTENSION_HEADERS; i++) {
		__u8 now = frame->next, head[2] = {};

		if (!is_extension(now))
			return;
		bpf_skb_load_bytes(skb, frame->l4, head, sizeof(head));
		frame->next = head[0];
		frame->l4 += extension_len(now, head);
	}
	frame->endless = is_extension(frame->next);
}

/* read_frame reads the headers of a frame. Later fragments of IPv4 have no protocol: a
 * receiver drops them without the first one.
 */
static __always_inline void read_frame(struct __sk_buff *skb, struct frame *frame)
{
	__u32 offset = ETH_HLEN - 2;

	__builtin_memset(frame, 0, sizeof(*frame));
	frame->type = read_be16(skb, offset);
	for (int i = 0; i < MAX_TAGS && is_tag(frame->type); i++) {
		offset += VLAN_HLEN;
		frame->type = read_be16(skb, offset);
	}
	frame->endless = is_tag(frame->type);
	frame->l3 = offset + 2;
	if (frame->type == bpf_htons(ETH_P_IP)) {
		frame->l4 = frame->l3 + (read_u8(skb, frame->l3) & 0xf) * 4;
		if (!(read_be16(skb, frame->l3 + 6) & bpf_htons(IPV4_FRAGMENT_OFFSET)))
			frame->next = read_u8(skb, frame->l3 + 9);
	} else if (frame->type == bpf_htons(ETH_P_IPV6)) {
		frame->l4 = frame->l3 + sizeof(struct ipv6hdr);
		frame->next = read_u8(skb, frame->l3 + 6);
		after_extensions(skb, frame);
	}
}

#endif
