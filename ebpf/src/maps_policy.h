/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The maps of network policies (docs/design/appendix/165-policies-in-packets.md). */
#ifndef ALIOTH_MAPS_POLICY_H
#define ALIOTH_MAPS_POLICY_H

#include "types_policy.h"
#include "types_service.h"
#include <bpf/bpf_helpers.h>

/* Device index -> the sets of the pod interface behind it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct guard);
	__uint(max_entries, MAX_INTERFACES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_guards SEC(".maps");

/* Identities of the peers that guarded interfaces may send to; VNI 0 for the backends of shared
 * services.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct address_key);
	__type(value, enum identity);
	__uint(max_entries, MAX_IDENTITIES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_identities SEC(".maps");

/* The number of a peer's list in alioth_policy_ports; 0: no rule. A changed set gets a new
 * number, so that a reader never sees a mixture of two sets.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct policy_peer);
	__type(value, __u32);
	__uint(max_entries, MAX_POLICY_PEERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_policy_peers SEC(".maps");

/* The same for ranges of addresses. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct policy_net);
	__type(value, __u32);
	__uint(max_entries, MAX_POLICY_NETS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_policy_nets SEC(".maps");

/* The rules of a list, by ranges of ports. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct policy_port);
	__type(value, struct policy_rules);
	__uint(max_entries, MAX_POLICY_PORTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_policy_ports SEC(".maps");

/* VNI modulo MAX_EPOCHS -> a number that changes with the rules of the VPC. The kernel reads an
 * array without a call.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, MAX_EPOCHS);
} alioth_epochs SEC(".maps");

/* Flows of guarded interfaces, one entry for each flow and interface. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct conn_key);
	__type(value, struct judged);
	__uint(max_entries, MAX_JUDGED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_judged SEC(".maps");

/* The numbers of opened and of ended flows in alioth_judged, as alioth_conn_opened and
 * alioth_conn_ended.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, MAX_INTERFACES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_judged_opened SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, MAX_INTERFACES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_judged_ended SEC(".maps");

/* Judged packets and flows by the rule that decided. If the map is full, further rules are not
 * counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__type(key, struct policy_rank);
	__type(value, struct policy_hits);
	__uint(max_entries, MAX_POLICY_HITS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_policy_hits SEC(".maps");

#endif
