/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The types of types.h for network policies (docs/design/165). */
#ifndef ALIOTH_TYPES_POLICY_H
#define ALIOTH_TYPES_POLICY_H

#include "types.h"

#define MAX_IDENTITIES 262144
#define MAX_POLICY_PEERS 1048576
#define MAX_POLICY_NETS 262144
#define MAX_POLICY_PORTS 524288
#define MAX_POLICY_HITS 65536
#define MAX_JUDGED 1048576
#define MAX_EPOCHS 4096 /* a power of two */

/* The numbers below IDENTITY_FIRST stand for no set of labels. */
enum identity {
	IDENTITY_UNKNOWN,
	IDENTITY_NODE,
	IDENTITY_OUTSIDE,
	IDENTITY_SHARED_CLIENT, /* a client of a shared service, of another VPC */
	IDENTITY_FIRST = 256,
};

enum guarded_flag {
	/* A NetworkPolicy selects the pod in this direction: without a rule that matches, it
	 * refuses the flow.
	 */
	GUARDED_ISOLATED = 1 << 0,
};

/* How an interface is guarded in one direction. */
struct guarded {
	__u32 set; /* 0: the direction is not judged */
	enum guarded_flag flags;
};

/* The sets of an interface, by the first direction of a flow as the interface sees the flow. */
struct guard {
	struct guarded ingress;
	struct guarded egress;
	struct guarded rehearsed_ingress;
	struct guarded rehearsed_egress;
};

/* The space that the identity of a peer is of. */
enum policy_space {
	SPACE_VPC,
	SPACE_SHARED, /* the backends of shared services */
};

/* Peer of a set, by identity. The rows of set 0 are the known identities of the VPC, and of VNI
 * 0 the known identities of SPACE_SHARED.
 */
struct policy_peer {
	__u32 vni;
	__u32 set;
	enum policy_space space;
	enum identity identity;
};

/* Peers of a set, by address. Bits of the prefix, including the 64 of VNI and set. */
struct policy_net {
	__u32 prefixlen;
	__u32 vni;
	__u32 set;
	struct addr ip;
};

/* Bits of the prefix, including the 80 before the port. */
struct policy_port {
	__u32 prefixlen;
	__u32 vni;
	__u32 list;
	__u8 proto; /* TCP, UDP or SCTP; 0: all others, with port 0 */
	__u8 pad; /* 0 */
	__be16 port;
};

enum policy_tier {
	TIER_ADMIN,
	TIER_NETWORK,
	TIER_BASELINE,
	TIER_LEN,
};

/* A rule is 2 bits of action above 30 bits of rank in its set; 0: no rule. */
enum policy_rule {
	RULE_RANK = 0x3fffffff,
	RULE_ACTION = 0xc0000000,
	RULE_ACCEPT = 0x40000000,
	RULE_DENY = 0x80000000,
	RULE_PASS = 0xc0000000,
};

/* The rank under which the flows count that the isolation of a pod refuses. */
#define RANK_ISOLATED RULE_RANK

/* The first rule of each tier. */
struct policy_rules {
	enum policy_rule tier[TIER_LEN];
};

struct policy_rank {
	__u32 vni;
	__u32 set;
	__u32 rank;
};

struct policy_hits {
	__u64 packets; /* that were judged */
	__u64 flows; /* packets that opened a flow, or were refused to do so */
};

/* The flags of a flow: enum conn_flag of the side that opened it, and above
 * JUDGED_ANSWERS_SHIFT of the other side.
 */
#define JUDGED_ANSWERS_SHIFT 8
enum judged_flag {
	JUDGED_INGRESS = 1 << 16, /* the peer opened it */
	JUDGED_SHARED = 1 << 17, /* to a backend of a shared service */
};

/* A flow that an interface may have. Its key has the direction CONN_FORWARD for both first
 * directions.
 */
struct judged {
	__u64 last_seen; /* ns, monotonic clock, renewed once per second */
	__u32 ifindex;
	__u32 epoch; /* of the VPC, read before the flow was judged */
	enum identity peer;
	enum judged_flag flags;
};

#endif
