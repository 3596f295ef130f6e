/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Rate limits. */
#ifndef ALIOTH_SHARE_H
#define ALIOTH_SHARE_H

#include "maps.h"

/* take_share applies the rate limit of a key: one per interval on average, and
 * burst/interval at once. The map has the time until which a key has used up its limit.
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
