/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

#ifndef ALIOTH_MAPS_H
#define ALIOTH_MAPS_H

#include "types.h"
#include "types_packet.h"
#include "types_role.h"
#include "types_service.h"
#include <bpf/bpf_helpers.h>

/* Constants that the loader sets when it loads the programs. */
const volatile struct config alioth_config;

/* The programs run in a trial: they change no row. */
const volatile bool alioth_trial;
volatile struct trial_hop alioth_hop;

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

/* Network namespaces by their cookies. Sockets of other namespaces are not translated. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct netns);
	__uint(max_entries, MAX_NETNS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_netns SEC(".maps");

/* Kind and place of an address of a VPC. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct address_key);
	__type(value, struct address);
	__uint(max_entries, MAX_ADDRESSES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_addresses SEC(".maps");

/* Subnets. The value is the id of the role of their bouncers; 0: all addresses of the
 * range are in alioth_addresses.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct prefix_key);
	__type(value, __u32);
	__uint(max_entries, MAX_SUBNETS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_subnets SEC(".maps");

/* All ranges of the VPCs of this node. The value is the id of the role of the VPC's
 * dividers; 0: all of its subnets are in alioth_subnets.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct prefix_key);
	__type(value, __u32);
	__uint(max_entries, MAX_SUBNETS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_vpc_ranges SEC(".maps");

/* The bouncers and dividers that this node knows of. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct role_key);
	__type(value, struct role);
	__uint(max_entries, MAX_ROLES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_roles SEC(".maps");

/* Rows of addresses of a VPC or subnet that this node does not hold completely. The daemon alone
 * adds them, and programs mark them as gone. No row makes room for a new row: a tenant would
 * evict the rows of others.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct address_key);
	__type(value, struct cached);
	__uint(max_entries, MAX_CACHED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_cached SEC(".maps");

/* Addresses without a row that packets were sent to, for the daemon to look up. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} alioth_misses SEC(".maps");

/* Time of an address's last entry in alioth_misses, in ns of the monotonic clock. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct address_key);
	__type(value, __u64);
	__uint(max_entries, 16384);
} alioth_miss_gate SEC(".maps");

/* Time until which an interface has used up its share of alioth_misses, in ns of the
 * monotonic clock.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, MAX_INTERFACES);
} alioth_miss_share SEC(".maps");

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

/* Addresses of this node in the cluster. No packet from another host has one of them as
 * its source, and no packet of a pod's interface on the node's network.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct addr);
	__type(value, __u32);
	__uint(max_entries, MAX_OWN);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_own SEC(".maps");

/* Node ports that lead back into the VPC of the sending pod. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct node_port);
	__type(value, __u32);
	__uint(max_entries, MAX_NODE_PORTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_node_ports SEC(".maps");

/* External addresses that this node answers for on its network. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct addr);
	__type(value, __u32);
	__uint(max_entries, MAX_ANNOUNCED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_announced SEC(".maps");

/* Destinations that egress must not reach; VNI 0 applies to every VPC. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct prefix_key);
	__type(value, struct closed);
	__uint(max_entries, MAX_CLOSED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_closed SEC(".maps");

/* Virtual addresses of a VPC; VNI 0 for addresses that every VPC shares. */
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

/* The backends of clients with affinity, by VPC. */
struct affinities {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct affinity_key);
	__type(value, struct affinity);
	__uint(max_entries, MAX_AFFINITIES);
};

/* VNI -> the table of affinities of the VPC's clients, for VPCs with services that have
 * affinity. A client that fills a table takes room from its own VPC only.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__type(key, __u32);
	__uint(max_entries, MAX_VPCS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__array(values, struct affinities);
} alioth_affinities SEC(".maps");

/* The backends of a socket, deleted with the socket. */
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

/* The number of flows that an interface has opened, written by the programs only, and the number
 * of its ended flows, written by user space only. The difference is the number of flows in the
 * table, and neither side overwrites the other.
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

/* First fragments, for the later ones of their datagrams: FOLLOWED per interface and
 * direction.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct follow_key);
	__type(value, struct first_fragment);
	__uint(max_entries, 16384);
} alioth_fragments SEC(".maps");

/* Shadow addresses of pods, for the kubelet's connections; zero: refused. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct target_key);
	__type(value, struct addr);
	__uint(max_entries, MAX_PROBES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_targets SEC(".maps");

/* Processes identified as the kubelet. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct process);
	__type(value, __u32);
	__uint(max_entries, 64);
} alioth_kubelets SEC(".maps");

/* Sockets that alioth_connect4 or alioth_connect6 has directed to a shadow address.
 * Other software can't write this map, unlike a packet's mark.
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

/* Drops by interface and VPC. If the map is full, alioth_counters alone has a drop. The
 * meaning of a key depends on the list of reasons; so the length of the list is part of
 * the size, and a changed list makes a new map.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__type(key, struct drop_key);
	__type(value, struct counter);
	__uint(max_entries, REASON_LEN * 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} alioth_drop_counters SEC(".maps");

/* A sample of the drops, for aliothctl. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} alioth_drops SEC(".maps");

/* Time of the last event of an interface and reason, so that no interface can fill the
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

/* End of the time of a client's wish for events of flows, in ns of the monotonic clock; 0: no
 * client. Written by user space, and set to 0 by the programs.
 */
volatile __u64 alioth_flows_until;

/* A sample of the flows, for aliothctl. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} alioth_flows SEC(".maps");

/* Time of a flow's last event. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct flow);
	__type(value, __u64);
	__uint(max_entries, 16384);
} alioth_flow_gate SEC(".maps");

/* Time until which an interface has used up its limit of flow events, in ns of the
 * monotonic clock.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct flow_share);
	__type(value, __u64);
	__uint(max_entries, MAX_INTERFACES);
} alioth_flow_share SEC(".maps");

/* Work area for the description of a flow, which is too large for the stack. */
struct flow_notes {
	struct flow flow;
	struct flow_share share;
	struct packet_event event;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct flow_notes);
	__uint(max_entries, 1);
} alioth_flow_notes SEC(".maps");

/* Result of a lookup in the host's routes for a node's IPv4 address, for outer packets
 * of up to mtu bytes.
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

/* Time until which a node that sends over this one has used up its limit of ICMP errors, in
 * ns of the monotonic clock.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct addr);
	__type(value, __u64);
	__uint(max_entries, 4096);
} alioth_role_gate SEC(".maps");

/* Time until which an interface has used up its limit of ICMP errors, in ns of the
 * monotonic clock.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, MAX_INTERFACES);
} alioth_icmp_gate SEC(".maps");

#endif
