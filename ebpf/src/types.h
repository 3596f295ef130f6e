/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copyright The Alioth Authors. */

/* The types that user space shares with the programs: keys, values, enums and limits.
 * The Go side is generated from them. A change of a layout or of the meaning of a field
 * needs a new LAYOUT_VERSION.
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
#define MAX_OWN 256
#define MAX_ANNOUNCED 4096
#define MAX_CLOSED 65536
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

/* Place where a packet was counted. */
enum direction {
	DIRECTION_FROM_POD,
	DIRECTION_TO_POD,
	DIRECTION_FROM_TUNNEL,
	DIRECTION_SOCKET,
	/* Packets that are fragmented for the tunnel, that sockets send to its port
	 * themselves, or that pods' interfaces on the node's network forge.
	 */
	DIRECTION_TO_TUNNEL,
	DIRECTION_LEN,
};

/* The result for a packet. Every packet that a program sees counts exactly one reason.
 * The string table on the Go side explains each.
 */
enum reason {
	UNDECIDED, /* between two steps of a decision; counting one is a bug */
	FORWARDED_LOCAL,
	FORWARDED_REMOTE,
	FORWARDED_ROLE,
	RETURNED,
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
	DROP_HELD_OUTSIDE,
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
	DROP_RETURNED_FOREIGN,
	DROP_RETURNED_HOME,
	DROP_STALE_ROW,
	DROP_NOT_MEMBER,
	DROP_NO_MEMBER,
	DROP_ROLE_INCOMPLETE,
	DROP_KUBELET_NO_POD,
	DROP_GUARDED_PORT,
	DROP_SHADOW_SOCKET,
	DROP_TUNNEL_SOCKET,
	DROP_FORGED_NODE,
	DROP_POLICY_INGRESS,
	DROP_POLICY_EGRESS,
	DROP_POLICY_UNKNOWN,
	DROP_POLICY_FULL,
	DROP_REWRITE_FAILED,
	REASON_LEN,
};

/* The reason why a node sends a packet through the tunnel, on the wire. A node sends a
 * packet on only with a higher class.
 */
enum packet_class {
	CLASS_DIRECT, /* by a row: the receiver has the destination */
	CLASS_RETURNED, /* to the node that sent it: the destination is not here */
	CLASS_TO_DIVIDER,
	CLASS_TO_BOUNCER,
	CLASS_FROM_BOUNCER,
	CLASS_LEN,
};

/* By these marks the host's rules recognise a packet that a program has allowed, and
 * its permitted destinations. MARK_MASK covers the only bits of a packet's mark that
 * Alioth uses; every packet from a pod to the host's stack has them set to one of the
 * values, or to 0 for a reply to the node. The programs have the listed addresses of
 * nodes only, the host has all of its own: so the mark reports whether these are
 * allowed.
 */
enum mark {
	MARK_MASK = 0x30000000,
	MARK_SHARED = 0x10000000, /* to a backend of a shared service */
	MARK_EGRESS = 0x20000000, /* to the outside, to be masqueraded, never to this node */
	MARK_NODE = 0x30000000, /* of the default VPC: to the outside or to a node */
	/* Packets to a pod: the node itself opens a flow to the pod's shadow address.
	 * The host's rules set it, whatever the sender has set.
	 */
	MARK_OPENING = MARK_SHARED,
	/* The node's own packets with the headers of the tunnel's device. */
	MARK_TUNNELED = MARK_NODE,
	/* The host's rules never see this value: it is the whole mark of a packet from
	 * alioth_from_pod through alioth_to_pod to a pod, and the kernel clears it where
	 * the packet enters the pod's namespace.
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
	__be16 link_port; /* of VXLAN links outside of every VPC; 0: none */
	__be16 guarded_port; /* TCP, on loopback, closed to processes of pods; 0: none */
	/* Not 0: UDP sockets are translated when they connect, on every interface; the daemon ends
	 * sockets that become stale.
	 */
	__u16 connected_datagrams;
	/* The devices that hold tunnel_source. Without the one of IPv4 the tunnel's
	 * device carries all packets; without the one of a family no program checks
	 * their length against the path's MTU.
	 */
	__u32 underlay_ifindex[FAMILY_LEN];
	/* Device for packets whose outer packets are to be fragmented over IPv6; 0: such
	 * packets are dropped.
	 */
	__u32 fragment_ifindex;
	__u8 underlay_mac[6]; /* of the device with tunnel_source, of IPv4 if it has one */
	__u16 kubelet_port; /* TCP, at which the kubelet listens on the node */
};

enum interface_flag {
	/* The node's own interface: it has no shadow address, and no peer to redirect to. */
	INTERFACE_NODE = 1 << 0,
	/* Its VPC has services. Without the flag no service is looked up. */
	INTERFACE_SERVICES = 1 << 1,
	/* A netkit pair. User space reads from it where the program is attached; the
	 * programs recognize netkit by the packet.
	 */
	INTERFACE_NETKIT = 1 << 2,
	/* Its packets have its identity on the wire (class.h). */
	INTERFACE_SENDS_IDENTITY = 1 << 3,
	/* It has a set of rules in this direction. With either of them, the packets of both
	 * directions are judged, since the replies of a flow have the flow's first direction.
	 */
	INTERFACE_INGRESS_JUDGED = 1 << 4,
	INTERFACE_EGRESS_JUDGED = 1 << 5,
	/* The lowest bit of the identity, which has bits 8 to 31; 0: not known. */
	INTERFACE_IDENTITY = 1 << 8,
};

struct interface {
	struct addr ip[FAMILY_LEN]; /* zero: no address in this family */
	struct addr shadow[FAMILY_LEN]; /* zero: none in this family */
	struct addr gateway[FAMILY_LEN]; /* the source of ICMP errors; zero: none are sent */
	__u32 vni;
	enum interface_flag flags;
	__u8 mac[6];
	__u8 pad[2];
};

enum netns_flag {
	/* Shared services are available to the sockets too. Set for the node's
	 * namespace, and the VPC of the shared services' backends.
	 */
	NETNS_SHARED = 1 << 0,
};

struct netns_vpc {
	struct addr ip[FAMILY_LEN]; /* zero: no address in this family */
	__u32 vni; /* a network outside of VPCs has a number above 24 bits; 0: this and all later entries are empty */
	__u32 ifindex; /* of the host end; 0: the interface has none */
};

/* A network namespace with its interfaces in networks outside of VPCs and in VPCs, in
 * the order of precedence.
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
	ADDRESS_OUTSIDE,
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
	/* Clients outside may reach pods from their own addresses. */
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
	CLOSED_UNLISTED, /* destinations that a VPC's list does not allow */
	CLOSED_METADATA, /* closed to a VPC that has no OPEN_METADATA for it */
	/* Of one VPC: the destination is on its list, and overrides a wider
	 * CLOSED_UNLISTED.
	 */
	OPEN_LISTED,
	OPEN_METADATA, /* on the VPC's list, and overrides CLOSED_METADATA */
	CLOSED_BALANCER, /* leads to nodes, and is the address of none */
	CLOSED_CLASS_LEN,
};

struct closed {
	enum closed_class class;
};

/* The kind of the kubelet's connects that a row applies to. Their port does not matter:
 * a pod can direct the kubelet to another port of the same address, but no further.
 */
enum target_scope {
	TARGET_PROBE = 0, /* connects with the linger time of probes */
	TARGET_HOOK = 1, /* all other connects */
};

struct target_key {
	enum target_scope scope;
	struct addr ip;
	__be16 port; /* of hooks, to earlier versions; now 0 */
	__u16 pad;
};

/* The identity of a process, which no other process ever has. */
struct process {
	__u64 started; /* ns since the machine was started */
	__u32 id; /* in the first namespace of processes */
	__u16 port; /* at which it was found to listen */
	__u16 pad;
};

#endif
