/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The types of types.h for Services: node ports, backends, flows, sockets. */
#ifndef ALIOTH_TYPES_SERVICE_H
#define ALIOTH_TYPES_SERVICE_H

#include "types.h"

#define MAX_NODE_PORTS 262144 /* every port of both protocols and families, once */
#define MAX_SERVICES 131072
#define MAX_BACKENDS 262144
#define MAX_MAGLEV_PARTS 524288
#define MAX_AFFINITIES 4096 /* of a VPC */
#define MAX_CONNECTIONS 524288

/* A port at which each node accepts packets for a Service of the VPC. */
struct node_port {
	__u32 vni;
	__be16 port;
	__u8 proto;
	__u8 family; /* enum family */
};

/* Port and protocol 0 stand for the virtual address itself: the entry identifies a
 * service's address if the port is not one of the service.
 */
struct service_key {
	__u32 vni;
	struct addr vip;
	__be16 port;
	__u8 proto;
	__u8 pad;
};

struct service {
	__u32 id;
	__u32 backends; /* slots 0 to backends-1 under this id */
};

/* How a new flow selects its backend, by the id of the service. A separate map, so that
 * struct service stays unchanged, and with it the flows of a node through an upgrade.
 */
struct choice {
	__u32 entries; /* of the lookup table; 0: there is one backend at most */
	__u32 affinity; /* time that a client keeps its backend, in s; 0: none */
};

/* The entries of a service that has no backends, and endpoints that are left out. */
#define ENTRIES_LEFT_OUT 1

/* A lookup table of Maglev in parts: entry e is in part e / MAGLEV_PART. */
#define MAGLEV_PART 128

struct maglev_key {
	__u32 service;
	__u32 part;
};

struct maglev {
	__u16 slot[MAGLEV_PART];
};

struct backend_key {
	__u32 service;
	__u32 slot;
};

struct backend {
	struct addr ip;
	__be16 port;
	__u16 outside; /* not 0: outside of the service's VPC, reached if egress allows it */
};

/* The backend of a client's flows to a service while the client has affinity. */
struct affinity_key {
	struct service_key service;
	__u32 vni; /* of the client */
	struct addr client;
};

struct affinity {
	__u64 last_opened; /* ns, monotonic clock */
	struct backend backend;
	__u32 pad;
};

enum conn_direction {
	CONN_FORWARD, /* peer = the service's address; value = its backend */
	CONN_REVERSE, /* peer = the backend; value = the service's address */
};

struct conn_key {
	__u32 vni;
	struct addr pod;
	struct addr peer;
	__be16 pod_port;
	__be16 peer_port;
	enum conn_direction direction;
	__u8 proto;
	__u8 inside; /* the peer is in the VPC; 0: reached from the shadow address */
	__u8 pad[2];
};

enum conn_flag {
	CONN_FIN = 1 << 0, /* this direction has been closed */
	CONN_RST = 1 << 1,
	CONN_SEEN = 1 << 2, /* at least one packet since the first */
	/* The notes of a socket have made the flow, to a peer that is not a service. The programs
	 * check its backend with each packet.
	 */
	CONN_BY_SOCKET = 1 << 3,
};

struct conn {
	__u64 last_seen; /* ns, monotonic clock, renewed once per second */
	struct addr addr;
	__be16 port;
	__u16 outside; /* not 0: the backend is outside of the VPC of the service */
	__u32 ifindex;
	enum conn_flag flags;
	/* Not 0: the pod's port in the other entry. The backend sees a port of its own if it could
	 * not tell the replies to the flow from the replies to another flow.
	 */
	__be16 pod_port;
	__u16 pad2;
};

/* A service that a socket has sent or connected to, and its backend. */
struct peer {
	struct service_key service;
	struct backend backend; /* port 0: no backend */
};

/* The number of services that an unconnected socket can send to at the same time with replies
 * shown from each service's address; a power of 2.
 */
#define SOCKET_PEERS 4
/* The destination port, at the gateway, of a datagram to the backend of the first of them. */
#define ASIDE_PORT 1

/* The backends of a socket. */
struct socket {
	struct peer connected;
	struct peer asked[SOCKET_PEERS]; /* by datagrams with a destination of their own */
	__u32 next; /* index in asked of the entry to replace next */
};

/* A UDP socket that is connected to a removed backend of its service. */
struct stale_socket {
	__u64 cookie;
	struct addr local;
	struct addr remote;
	__be16 local_port;
	__be16 remote_port;
	__u32 ifindex; /* of the device that it is bound to; 0: none */
};

#endif
