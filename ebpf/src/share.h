/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Bounding how often something is done for one of those who share it. */
#ifndef ALIOTH_SHARE_H
#define ALIOTH_SHARE_H

#include "maps.h"

/* take_share takes one of what key may have: one per interval, and burst/interval
 * at once. The map has the time until which a key has used up what it may.
 */
static __always_inline bool take_share(void *map, const void *key, __u64 now, __u64 interval, __u64 burst)
{
	__u64 *until = bpf_map_lookup_elem(map, key);
	__u64 next = until && *until > now ? *until : now;

	if (next - now > burst)
		return false;
	next += interval;
	bpf_map_update_elem(map, key, &next, BPF_ANY);
	return true;
}

#endif
