/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Work areas. Linux 6.1 gives a program and its function calls 512 bytes of stack
 * together.
 */
#ifndef ALIOTH_WORK_H
#define ALIOTH_WORK_H

#include "embedded.h"
#include "maps.h"

/* State of the decision about one packet. Programs of a CPU run one after the other. */
struct work {
	struct conn_key forward;
	struct conn_key reverse;
	struct conn_key other; /* the forward entry of the flow that has the reverse entry */
	struct conn value;
	struct affinity_key client; /* its service is the one that the packet asks */
	struct affinity affinity;
	struct backend backend;
	__be16 pod_port; /* not 0: the port that the backend sees */
	struct quote quote;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct work);
	__uint(max_entries, 1);
} work SEC(".maps");

/* take_work never returns NULL, but the verifier does not assume so. */
static __always_inline struct work *take_work(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&work, &only);
}

#endif
