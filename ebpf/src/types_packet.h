/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The types of types.h for fragments, and for the counters and events of packets. */
#ifndef ALIOTH_TYPES_PACKET_H
#define ALIOTH_TYPES_PACKET_H

#include "types.h"

/* The identity of a fragmented datagram, by the fields that its fragments share. */
struct datagram {
	struct addr peer; /* its other end, as it came */
	__u32 vni;
	__u32 id;
	__u8 proto; /* 0: IPv6 */
	__u8 pad;
	__u16 first; /* length of the first fragment; no later one may overlap it */
};

struct follow_key {
	__u32 ifindex;
	enum direction direction;
	__u32 slot;
};

/* The translation of the first fragment, which has the datagram's ports. */
struct first_fragment {
	__u64 until; /* ns, monotonic clock: end of the entry's validity */
	struct datagram of;
	struct addr shown; /* peer, as it left */
	enum mark mark;
};

struct counter {
	__u64 packets;
	__u64 bytes;
};

/* Key of the drops by interface and VPC. Its number of values is bounded by the objects
 * of the node: no content of a packet alone becomes part of a key.
 */
struct drop_key {
	__u32 ifindex; /* of the interface whose program dropped the packets; 0: removed devices */
	__u32 vni; /* 0: of no VPC of this node */
	enum reason reason;
	enum direction direction;
};

/* The two ends of a flow. */
struct tuple {
	struct addr src;
	struct addr dst;
	__be16 sport;
	__be16 dport;
};

/* One packet of a sample, as far as it had been parsed. */
struct packet_event {
	__u64 time; /* ns, monotonic clock */
	struct tuple came; /* as the program received the packet */
	struct tuple went; /* as translated, for a service or a shadow address; zero: not translated */
	struct addr outer_src; /* the nodes of a packet from or to the tunnel, otherwise zero */
	struct addr outer_dst;
	__u32 vni; /* of a packet from the tunnel: as on the wire */
	__u32 ifindex;
	enum reason reason;
	enum direction direction;
	enum mark mark;
	__u8 proto;
	__u8 pad[3];
};

/* The identity of a flow at one place, in one direction. */
struct flow {
	struct tuple came;
	__u32 vni;
	__u32 ifindex;
	enum reason reason;
	enum direction direction;
	__u8 proto;
	__u8 pad[3];
};

/* Key of the limit of flow events: an interface, or for packets from the tunnel a VPC. */
struct flow_share {
	__u32 ifindex;
	__u32 vni;
};

#endif
