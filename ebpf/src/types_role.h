/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The types of types.h for bouncers and dividers (docs/design/140). */
#ifndef ALIOTH_TYPES_ROLE_H
#define ALIOTH_TYPES_ROLE_H

#include "types.h"

#define MAX_ROLES 65536
#define MAX_MEMBERS 64 /* a power of two */

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
	struct addr member[MAX_MEMBERS]; /* n of them, without this node */
};

#endif
