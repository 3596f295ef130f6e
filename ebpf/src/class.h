/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The inner Ethernet source of a tunnelled packet (docs/design/141). It has the class, and in its
 * second form the identity of the sender (docs/design/165). No interface has such an address, and
 * receivers overwrite it. Senders write it always, so that no pod's address decides.
 */
#ifndef ALIOTH_CLASS_H
#define ALIOTH_CLASS_H

#include "parse.h"

/* The first form, but for its last byte, which is the class. */
static const __u8 class_source[5] = { 0x02, 0xa1, 0x07, 0x00, 0x02 };

/* The first bytes of the second form. 3 bytes of the identity follow, and a byte with the class in
 * its lower half. The upper half has flags; nodes that send the packet on keep them.
 */
static const __u8 identity_source[2] = { 0x02, 0xa2 };

#define SOURCE_CLASS 0x0f
#define SOURCE_FLAGS 0xf0

/* The origin of a packet is all but the class: the identity in bits 8 to 31, the flags in bits 4 to
 * 7, and for the second form ORIGIN_SENT. An interface has its own origin in the flags of its row.
 */
#define ORIGIN_SENT INTERFACE_SENDS_IDENTITY
#define ORIGIN_IDENTITY 0xffffff00

/* origin_of returns the origin of the packets of an interface. */
static __always_inline __u32 origin_of(const struct interface *from)
{
	return from->flags & (ORIGIN_IDENTITY | ORIGIN_SENT);
}

/* write_source fills an Ethernet source with origin and class. */
static __always_inline void write_source(__u8 *mac, __u32 origin, enum packet_class class)
{
	if (!(origin & ORIGIN_SENT)) {
		__builtin_memcpy(mac, class_source, sizeof(class_source));
		mac[5] = class;
		return;
	}
	__builtin_memcpy(mac, identity_source, sizeof(identity_source));
	mac[2] = origin >> 24;
	mac[3] = origin >> 16;
	mac[4] = origin >> 8;
	mac[5] = (origin & SOURCE_FLAGS) | class;
}

/* is_class_source reports whether an Ethernet source has the first form. */
static __always_inline bool is_class_source(const __u8 *mac)
{
	return *(const __u16 *)mac == *(const __u16 *)class_source &&
	       *(const __u16 *)(mac + 2) == *(const __u16 *)(class_source + 2) && mac[4] == class_source[4];
}

/* read_source reads class and origin. Every other source belongs to a direct packet: earlier
 * releases send the pod's own address, and a stock VTEP any. The class of a later release is
 * direct, too.
 */
static __always_inline void read_source(struct packet *pkt)
{
	const __u8 *mac = pkt->eth_src;
	__u8 class = CLASS_DIRECT;

	pkt->origin = 0;
	if (*(const __u16 *)mac == *(const __u16 *)identity_source) {
		pkt->origin = (__u32)mac[2] << 24 | mac[3] << 16 | mac[4] << 8 | (mac[5] & SOURCE_FLAGS) | ORIGIN_SENT;
		class = mac[5] & SOURCE_CLASS;
	} else if (is_class_source(mac)) {
		class = mac[5];
	}
	pkt->class = class < CLASS_LEN ? class : CLASS_DIRECT;
}

#endif
