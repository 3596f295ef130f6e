/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The types of types.h for bouncers and dividers (docs/design/140). */
#ifndef ALIOTH_TYPES_ROLE_H
#define ALIOTH_TYPES_ROLE_H

#include "types.h"

#define MAX_ROLES 65536
#define MAX_MEMBERS 64 /* a power of two */
#define MAX_CACHED 65536

/* A role in a VPC. The values of alioth_subnets and alioth_vpc_ranges are ids of roles; 0:
 * the complete table is on this node.
 */
struct role_key {
	__u32 vni;
	__u32 id;
};

enum role_flag {
	ROLE_HERE = 1 << 0, /* this node is a member */
	ROLE_COMPLETE = 1 << 1, /* and its table is complete */
};

struct role {
	__u32 n;
	enum role_flag flags;
	/* Of a subnet with these bouncers: the source of ICMP errors; zero: none are sent. */
	struct addr gateway[FAMILY_LEN];
	struct addr member[MAX_MEMBERS]; /* n of them, without this node */
};

enum cached_state {
	CACHED_ROW,
	/* The node has returned a packet: the row is kept until its end to recognize others
	 * that are on their way back.
	 */
	CACHED_GONE,
};

/* A row of one address that the daemon has looked up. */
struct cached {
	struct addr node;
	struct addr before; /* until the row's end: the former node of the row; or zero */
	__u64 used; /* ns, monotonic clock: the last packet, to a second */
	__u64 until; /* ns, monotonic clock: end of before, and of a row that is gone */
	enum cached_state state;
	__u8 mac[6];
	__u8 pad[6];
};

/* The next node of a packet in a trial. */
struct trial_hop {
	struct addr node;
	enum packet_class class;
};

/* An address without a row that an interface has sent to. */
struct miss {
	__u32 vni;
	__u32 ifindex;
	struct addr ip;
};

#endif
