/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

#ifndef ALIOTH_MAPS_H
#define ALIOTH_MAPS_H

#include "types.h"
#include <bpf/bpf_helpers.h>

/* What the loader knows when it loads the programs. */
const volatile struct config alioth_config;

/* LAYOUT_VERSION of the pinned maps, written by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} alioth_layout SEC(".maps");

/* Device index -> the pod interface behind it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct interface);
	__uint(max_entries, MAX_INTERFACES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_interfaces SEC(".maps");

/* Network namespaces by their cookies. Sockets of any other are left alone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct netns);
	__uint(max_entries, MAX_NETNS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_netns SEC(".maps");

/* Where an address of a VPC is. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct address_key);
	__type(value, struct address);
	__uint(max_entries, MAX_ADDRESSES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_addresses SEC(".maps");

/* Ranges whose addresses are all in alioth_addresses. The value is a slot for
 * a reference to the subnet's role members.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct prefix_key);
	__type(value, __u32);
	__uint(max_entries, MAX_SUBNETS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_subnets SEC(".maps");

/* All ranges of the VPCs of this node; the value as in alioth_subnets. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct prefix_key);
	__type(value, __u32);
	__uint(max_entries, MAX_SUBNETS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_vpc_ranges SEC(".maps");

/* VNI -> the VPC, for the VPCs that are present on this node. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct vpc);
	__uint(max_entries, MAX_VPCS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_vpcs SEC(".maps");

/* Underlay addresses of the known nodes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct addr);
	__type(value, __u32);
	__uint(max_entries, MAX_NODES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_nodes SEC(".maps");

/* Ports of nodes that lead back into the VPC of the pod that asks. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct node_port);
	__type(value, __u32);
	__uint(max_entries, MAX_NODE_PORTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_node_ports SEC(".maps");

/* External addresses for which this node answers on its network. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct addr);
	__type(value, __u32);
	__uint(max_entries, MAX_ANNOUNCED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_announced SEC(".maps");

/* Destinations that egress must not reach; VNI 0 stands for every VPC. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct prefix_key);
	__type(value, struct closed);
	__uint(max_entries, MAX_CLOSED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_closed SEC(".maps");

/* Virtual addresses of a VPC; VNI 0 for those that every VPC shares. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct service_key);
	__type(value, struct service);
	__uint(max_entries, MAX_SERVICES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_services SEC(".maps");

/* Backends by the id of their service and slot. A changed service gets a new
 * id, so that a reader never sees a mixture of two lists.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct backend_key);
	__type(value, struct backend);
	__uint(max_entries, MAX_BACKENDS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_backends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct choice);
	__uint(max_entries, MAX_SERVICES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_choices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct maglev_key);
	__type(value, struct maglev);
	__uint(max_entries, MAX_MAGLEV_PARTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_maglev SEC(".maps");

/* Which backends the clients of a VPC stay with. */
struct affinities {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct affinity_key);
	__type(value, struct affinity);
	__uint(max_entries, MAX_AFFINITIES);
};

/* VNI -> the affinities of the VPC's clients, for VPCs with services that give
 * any. Who fills a table takes room from its own VPC alone.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__type(key, __u32);
	__uint(max_entries, MAX_VPCS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__array(values, struct affinities);
} alioth_affinities SEC(".maps");

/* The backends of a socket, which go with it. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__type(key, int);
	__type(value, struct socket);
	__uint(max_entries, 0);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_sockets SEC(".maps");

/* Flows to services, two entries each. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct conn_key);
	__type(value, struct conn);
	__uint(max_entries, MAX_CONNECTIONS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_connections SEC(".maps");

/* How many flows an interface has opened, written by the programs only, and
 * how many of those have ended, written by user space only: their difference
 * is what the interface holds, and neither side overwrites the other.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, MAX_INTERFACES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_conn_opened SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, MAX_INTERFACES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_conn_ended SEC(".maps");

/* The first fragments that later ones follow, FOLLOWED per interface and
 * direction.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct follow_key);
	__type(value, struct first_fragment);
	__uint(max_entries, 16384);
} alioth_fragments SEC(".maps");

/* Pod addresses that the kubelet reaches by a shadow; zero: not at all. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct target_key);
	__type(value, struct addr);
	__uint(max_entries, MAX_PROBES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_targets SEC(".maps");

/* Processes that have been found to be the kubelet, which they stay. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct process);
	__type(value, __u32);
	__uint(max_entries, 64);
} alioth_kubelets SEC(".maps");

/* Sockets that alioth_connect4 or alioth_connect6 has led to a shadow. Nothing else
 * can write this, as it can a packet's mark.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__type(key, int);
	__type(value, __u32);
	__uint(max_entries, 0);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_led SEC(".maps");

/* Indexed by reason * DIRECTION_LEN + direction. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct counter);
	__uint(max_entries, REASON_LEN * DIRECTION_LEN);
} alioth_counters SEC(".maps");

/* The drops among them once more, by whose they are. When there is no room for
 * another key, alioth_counters alone has them. A key's meaning depends on the
 * list of reasons, so that its length is part of the size: another list, another
 * map.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__type(key, struct drop_key);
	__type(value, struct counter);
	__uint(max_entries, REASON_LEN * 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_drop_counters SEC(".maps");

/* A sample of the drops, for people. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} alioth_drops SEC(".maps");

/* When an interface last got an event of a reason, so that none can fill the
 * ring alone.
 */
struct drop_gate_key {
	__u32 ifindex;
	enum reason reason;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct drop_gate_key);
	__type(value, __u64);
	__uint(max_entries, 16384);
} alioth_drop_gate SEC(".maps");

/* Until when somebody wants to know which flows pass, in ns of the monotonic
 * clock; 0: nobody does. Written by user space, and set to 0 by the programs.
 */
volatile __u64 alioth_flows_until;

/* A sample of what passes, for people. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} alioth_flows SEC(".maps");

/* When a flow was last told. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct flow);
	__type(value, __u64);
	__uint(max_entries, 16384);
} alioth_flow_gate SEC(".maps");

/* Until when an interface has used up what may be told of its flows, in ns of the
 * monotonic clock.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct flow_share);
	__type(value, __u64);
	__uint(max_entries, MAX_INTERFACES);
} alioth_flow_share SEC(".maps");

/* Room for what describes a flow, which the stack does not have. */
struct flow_notes {
	struct flow flow;
	struct flow_share share;
	struct packet_event event;
	struct address_key to;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct flow_notes);
	__uint(max_entries, 1);
} alioth_flow_notes SEC(".maps");

/* What the host's routes told of the way to a node's IPv4 address, for outer
 * packets of up to mtu bytes.
 */
struct known_way {
	__u64 until; /* jiffies */
	__u32 device;
	__u32 mtu;
	__be32 next;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __be32);
	__type(value, struct known_way);
	__uint(max_entries, 4096);
} alioth_ways SEC(".maps");

/* Until when an interface has used up its share of ICMP errors, in ns of the
 * monotonic clock.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, MAX_INTERFACES);
} alioth_icmp_gate SEC(".maps");

#endif
