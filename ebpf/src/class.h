/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The class of a tunnelled packet, in the last byte of its inner Ethernet source
 * (docs/design/141). No interface has such an address, and receivers overwrite it.
 * Senders write it always, so that no pod's address decides.
 */
#ifndef ALIOTH_CLASS_H
#define ALIOTH_CLASS_H

#include "parse.h"

/* The address of a class, but for its last byte. */
static const __u8 class_source[5] = { 0x02, 0xa1, 0x07, 0x00, 0x02 };

/* write_class fills an Ethernet source with the address of a class. */
static __always_inline void write_class(__u8 *mac, enum packet_class class)
{
	__builtin_memcpy(mac, class_source, sizeof(class_source));
	mac[5] = class;
}

/* class_of reads the class. Every other source belongs to a direct packet: earlier releases send
 * the pod's own address, and a stock VTEP any.
 */
static __always_inline enum packet_class class_of(const struct packet *pkt)
{
	const __u8 *mac = pkt->eth_src;

	if (*(const __u16 *)mac != *(const __u16 *)class_source ||
	    *(const __u16 *)(mac + 2) != *(const __u16 *)(class_source + 2) || mac[4] != class_source[4] ||
	    mac[5] >= CLASS_LEN)
		return CLASS_DIRECT;
	return mac[5];
}

#endif
