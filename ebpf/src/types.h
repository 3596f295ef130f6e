/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* Everything that user space shares with the programs: keys, values, enums
 * and limits. The Go side is generated from it. A change of a layout or of the
 * meaning of a field needs a new LAYOUT_VERSION.
 */
#ifndef ALIOTH_TYPES_H
#define ALIOTH_TYPES_H

#include "vmlinux.h"

#define LAYOUT_VERSION 2

#define MAX_INTERFACES 4096
#define MAX_ADDRESSES 262144
#define MAX_SUBNETS 65536
#define MAX_VPCS 16384
#define MAX_NODES 16384
#define MAX_NODE_PORTS 262144 /* every port of both protocols and families, once */
#define MAX_ANNOUNCED 4096
#define MAX_CLOSED 65536
#define MAX_SERVICES 131072
#define MAX_BACKENDS 262144
#define MAX_MAGLEV_PARTS 524288
#define MAX_AFFINITIES 4096 /* of a VPC */
#define MAX_CONNECTIONS 524288
#define MAX_PROBES 65536
#define MAX_NETNS 8192
#define MAX_NETNS_VPCS 8

/* An IPv6 address, or an IPv4 address in its v4-mapped form, so that one code
 * path serves both families. Network order.
 */
struct addr {
	__u8 b[16];
} __attribute__((aligned(4)));

enum family {
	FAMILY_V4,
	FAMILY_V6,
	FAMILY_LEN,
};

/* Where a counted packet was seen. */
enum direction {
	DIRECTION_FROM_POD,
	DIRECTION_TO_POD,
	DIRECTION_FROM_TUNNEL,
	DIRECTION_SOCKET,
	DIRECTION_TO_TUNNEL, /* what is fragmented on its way there, or what sockets send past it */
	DIRECTION_LEN,
};

/* What became of a packet. Every packet that a program sees counts exactly
 * one of these. The meaning of each is in the string table on the Go side.
 */
enum reason {
	UNDECIDED, /* between two steps of a decision; counting one is a bug */
	FORWARDED_LOCAL,
	FORWARDED_REMOTE,
	REPLIED,
	REPLIED_TOO_BIG,
	REPLIED_REFUSED,
	TO_STACK,
	FROM_STACK,
	PROBE_REWRITTEN,
	HOOK_REWRITTEN,
	SERVICE_REWRITTEN,
	/* Every reason from here on is a drop. */
	DROP_UNKNOWN_INTERFACE,
	DROP_VLAN,
	DROP_ETHERTYPE,
	DROP_BAD_HEADER,
	DROP_EXTENSION_HEADERS,
	DROP_SPOOFED_MAC,
	DROP_SPOOFED_IP,
	DROP_SPOOFED_LOCAL,
	DROP_ARP_OWN,
	DROP_ARP_OTHER,
	DROP_ND_OWN,
	DROP_ND_OTHER,
	DROP_ROUTER_SOLICITATION,
	DROP_MLD,
	DROP_MULTICAST,
	DROP_BROADCAST,
	DROP_GATEWAY_CLOSED,
	DROP_NO_ENDPOINT,
	DROP_NO_SUBNET,
	DROP_NO_INTERFACE,
	DROP_VNI_MISMATCH,
	DROP_WRONG_NODE,
	DROP_OUTSIDE_DEFAULT_VPC,
	DROP_TOO_BIG,
	DROP_NO_SHADOW,
	DROP_NOT_SHADOW,
	DROP_NODE_CLOSED,
	DROP_EGRESS_PROTOCOL,
	DROP_EGRESS_FRAGMENT,
	DROP_EGRESS_OPTIONS,
	DROP_ICMP_UNRELATED,
	DROP_SERVICE_PORT,
	DROP_SERVICE_ICMP,
	DROP_NO_BACKEND,
	DROP_NO_CONNECTION,
	DROP_CONN_LIMIT,
	DROP_CONN_FULL,
	DROP_CONN_CONFLICT,
	DROP_EGRESS_CLOSED,
	DROP_EGRESS_SHADOW,
	DROP_EGRESS_NODE,
	DROP_EGRESS_DEFAULT_VPC,
	DROP_EGRESS_SERVICE,
	DROP_EGRESS_LINK_LOCAL,
	DROP_EGRESS_MULTICAST,
	DROP_EGRESS_DENIED,
	DROP_EGRESS_UNLISTED,
	DROP_EGRESS_METADATA,
	DROP_EGRESS_TUNNEL_PORT,
	DROP_NO_TUNNEL_KEY,
	DROP_UNKNOWN_NODE,
	DROP_UNKNOWN_VNI,
	DROP_TUNNEL_FLOOD,
	DROP_KUBELET_NO_POD,
	DROP_SHADOW_SOCKET,
	DROP_TUNNEL_SOCKET,
	DROP_REWRITE_FAILED,
	REASON_LEN,
};

/* By these marks the host's rules recognise what a program has let out, and how
 * far. MARK_MASK covers the only bits of a packet's mark that Alioth uses; every
 * packet from a pod to the host's stack has them set to one of the values, or
 * to 0 when it answers the node. A program knows the addresses of nodes only as
 * far as they were listed, the host all of its own: so the mark reports whether
 * they are allowed.
 */
enum mark {
	MARK_MASK = 0x30000000,
	MARK_SHARED = 0x10000000, /* to a backend of a shared service */
	MARK_EGRESS = 0x20000000, /* to the outside, to be masqueraded, never to this node */
	MARK_NODE = 0x30000000, /* of the default VPC: to the outside or to a node */
	/* Towards a pod: the node itself opens a flow to the pod's shadow. The host's rules
	 * set it, whatever the sender has set.
	 */
	MARK_OPENING = MARK_SHARED,
	/* On the node's own packets around which the tunnel's device puts headers. */
	MARK_TUNNELED = MARK_NODE,
	/* No rule of the host ever sees this one: it is the whole mark of a packet on
	 * its way from alioth_from_pod through alioth_to_pod to a pod, and the kernel
	 * takes it off where the packet enters the pod's namespace.
	 */
	MARK_DELIVERED = 0x0a110d0d,
};

struct config {
	struct addr node_shadow[FAMILY_LEN];
	struct addr tunnel_source[FAMILY_LEN]; /* zero: the route decides */
	__u64 netns_cookie; /* of the node's own network namespace */
	__u64 linger_jiffies; /* 1 s */
	__u32 vxlan_ifindex;
	__u32 connections_per_interface;
	__be16 tunnel_port;
	/* Not 0: sockets for datagrams are translated when they connect, whatever their
	 * interface is. Somebody ends those that are stale then.
	 */
	__u16 connected_datagrams;
	/* The devices that hold tunnel_source. Without the one of IPv4 the tunnel's
	 * device carries everything; without that of a family nobody tells whether
	 * a packet fits.
	 */
	__u32 underlay_ifindex[FAMILY_LEN];
	/* Where packets go whose outer packets are to be fragmented over IPv6; 0:
	 * those are dropped.
	 */
	__u32 fragment_ifindex;
	__u8 underlay_mac[6]; /* of the device with tunnel_source, of IPv4 if it has one */
	__u16 kubelet_port; /* TCP, at which the kubelet listens on the node */
};

enum interface_flag {
	/* The node's own interface: no door, and no peer to redirect to. */
	INTERFACE_NODE = 1 << 0,
	/* Its VPC has services. Without it nobody looks for them. */
	INTERFACE_SERVICES = 1 << 1,
	/* A netkit pair. User space remembers by it where the program is attached;
	 * programs see it by the packet.
	 */
	INTERFACE_NETKIT = 1 << 2,
};

struct interface {
	struct addr ip[FAMILY_LEN]; /* zero: no address in this family */
	struct addr shadow[FAMILY_LEN]; /* zero: no door in this family */
	struct addr gateway[FAMILY_LEN]; /* the source of ICMP errors; zero: none are sent */
	__u32 vni;
	enum interface_flag flags;
	__u8 mac[6];
	__u8 pad[2];
};

enum netns_flag {
	/* Sockets reach the services that every VPC shares too: those of the node, and
	 * of the VPC that the services' backends belong to.
	 */
	NETNS_SHARED = 1 << 0,
};

struct netns_vpc {
	struct addr ip[FAMILY_LEN]; /* zero: no address in this family */
	__u32 vni; /* 0: this one and all after it are none */
	__u32 ifindex; /* of the host end; 0: the interface has none */
};

/* A network namespace with interfaces in VPCs, in the order in which they were
 * attached.
 */
struct netns {
	struct netns_vpc vpc[MAX_NETNS_VPCS];
	enum netns_flag flags;
	__u32 pad;
};

struct address_key {
	__u32 vni;
	struct addr ip;
};

enum address_kind {
	ADDRESS_LOCAL = 1,
	ADDRESS_REMOTE,
	ADDRESS_GATEWAY,
	ADDRESS_KIND_LEN,
};

struct address {
	enum address_kind kind;
	__u32 ifindex; /* ADDRESS_LOCAL */
	struct addr node; /* ADDRESS_REMOTE */
	__u8 mac[6];
	__u8 pad[2];
};

/* Bits of the prefix, including the 32 of the VNI. */
struct prefix_key {
	__u32 prefixlen;
	__u32 vni;
	struct addr ip;
};

enum vpc_flag {
	VPC_EGRESS = 1 << 0,
	VPC_DEFAULT = 1 << 1,
	/* Somebody outside may reach pods under an address of his own. */
	VPC_FRONTED = 1 << 2,
};

struct vpc {
	enum vpc_flag flags;
};

enum closed_class {
	CLOSED_SHADOW = 1,
	CLOSED_NODE,
	CLOSED_DEFAULT_VPC,
	CLOSED_SERVICE,
	CLOSED_LINK_LOCAL,
	CLOSED_MULTICAST,
	CLOSED_DENIED,
	CLOSED_UNLISTED, /* all that a VPC's list of allowed destinations leaves out */
	CLOSED_METADATA, /* closed to a VPC that has no OPEN_METADATA for it */
	/* Of one VPC: the destination is on its list, and takes the place of a wider
	 * CLOSED_UNLISTED.
	 */
	OPEN_LISTED,
	OPEN_METADATA, /* and lies behind CLOSED_METADATA */
	CLOSED_BALANCER, /* leads to nodes, and is none's own */
	CLOSED_CLASS_LEN,
};

struct closed {
	enum closed_class class;
};

/* A port at which each node takes what is for a Service of the VPC. */
struct node_port {
	__u32 vni;
	__be16 port;
	__u8 proto;
	__u8 family; /* enum family */
};

/* Port and protocol 0 stand for the virtual address as such: it tells a
 * service's address from any other when the port is not one of the service.
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

/* How a new flow finds its backend, by the id of the service. A map of its own:
 * struct service stays as it is, and with it the flows of a node through an
 * upgrade.
 */
struct choice {
	__u32 entries; /* of the lookup table; 0: there is one backend at most */
	__u32 affinity; /* s for which a client keeps its backend; 0: none */
};

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
	__u16 outside; /* not 0: of the service's VPC, it is reached as egress decides */
};

/* Where a client's flows to a service go for as long as it has affinity. */
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
	__u8 inside; /* the peer is in the VPC, and not beyond the shadow door */
	__u8 pad[2];
};

enum conn_flag {
	CONN_FIN = 1 << 0, /* this direction has been closed */
	CONN_RST = 1 << 1,
	CONN_SEEN = 1 << 2, /* at least one packet since the first */
};

struct conn {
	__u64 last_seen; /* ns, monotonic clock, renewed once per second */
	struct addr addr;
	__be16 port;
	__u16 outside; /* not 0: the backend of a service of the VPC is not in it */
	__u32 ifindex;
	enum conn_flag flags;
	__u32 pad2;
};

/* A service that a socket has asked, and the backend that it was given. */
struct peer {
	struct service_key service;
	struct backend backend; /* port 0: there is none */
};

/* How many services a socket that is not connected may talk to at once with each
 * answering under its own address; a power of 2.
 */
#define SOCKET_PEERS 4

/* What a socket has behind virtual addresses. */
struct socket {
	struct peer connected;
	struct peer asked[SOCKET_PEERS]; /* by datagrams that name their destination */
	__u32 next; /* of asked, to be used for another service */
};

/* A UDP socket that is connected to a removed backend of the service that it asked
 * for.
 */
struct stale_socket {
	__u64 netns_cookie;
	__u64 cookie;
	struct addr local;
	struct addr remote;
	__be16 local_port;
	__be16 remote_port;
	__u32 ifindex; /* of the device that it is bound to; 0: none */
};

/* Which of the kubelet's connects a row is about, whatever their port is: another
 * port of the same address is as far as a pod can redirect the kubelet.
 */
enum target_scope {
	TARGET_PROBE = 0, /* those that linger as probes do */
	TARGET_HOOK = 1, /* all others */
};

struct target_key {
	enum target_scope scope;
	struct addr ip;
	__be16 port; /* of hooks, to earlier versions; now 0 */
	__u16 pad;
};

/* A process, as no other ever is. */
struct process {
	__u64 started; /* ns since the machine was started */
	__u32 id; /* in the first namespace of processes */
	__u16 port; /* at which it was found to listen */
	__u16 pad;
};

/* A datagram in fragments, by what those have in common. */
struct datagram {
	struct addr peer; /* its other end, as it came */
	__u32 vni;
	__u32 id;
	__u8 proto; /* 0: IPv6 */
	__u8 pad;
	__u16 first; /* bytes that the first of them had; no other may be about those */
};

struct follow_key {
	__u32 ifindex;
	enum direction direction;
	__u32 slot;
};

/* What became of the fragment that showed the datagram's ports. */
struct first_fragment {
	__u64 until; /* ns, monotonic clock: when it is too old to be followed */
	struct datagram of;
	struct addr shown; /* peer, as it left */
	enum mark mark;
};

struct counter {
	__u64 packets;
	__u64 bytes;
};

/* Whose packets were dropped, where and why. Bounded by what exists on the node:
 * nothing that is written in a packet alone becomes part of a key.
 */
struct drop_key {
	__u32 ifindex; /* whose program dropped them; 0: devices that are gone */
	__u32 vni; /* 0: of no VPC that is here */
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
	struct tuple came; /* as the packet came to the program */
	struct tuple went; /* as it was translated, for a service or at the shadow door; zero: it was not */
	struct addr outer_src; /* the nodes of a packet that came or goes through the tunnel, otherwise zero */
	struct addr outer_dst;
	__u32 vni; /* as on the wire, when it came from the tunnel */
	__u32 ifindex;
	enum reason reason;
	enum direction direction;
	enum mark mark;
	__u8 proto;
	__u8 pad[3];
};

/* What passes at one place between two ends, to the same end. */
struct flow {
	struct tuple came;
	__u32 vni;
	__u32 ifindex;
	enum reason reason;
	enum direction direction;
	__u8 proto;
	__u8 pad[3];
};

/* Whose flows share what may be told. Of what comes from the tunnel, all of a VPC do. */
struct flow_share {
	__u32 ifindex;
	__u32 vni;
};

#endif
