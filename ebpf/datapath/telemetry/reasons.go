// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"strconv"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// Reason is the result for a packet. The zero value is never counted.
type Reason uint32

// Reasons of packets that are forwarded, by their destination.
const (
	ForwardedLocal  = Reason(bpf.AliothReasonFORWARDED_LOCAL)
	ForwardedRemote = Reason(bpf.AliothReasonFORWARDED_REMOTE)
	ForwardedRole   = Reason(bpf.AliothReasonFORWARDED_ROLE)
	Returned        = Reason(bpf.AliothReasonRETURNED)
	Replied         = Reason(bpf.AliothReasonREPLIED)
	RepliedTooBig   = Reason(bpf.AliothReasonREPLIED_TOO_BIG)
	RepliedRefused  = Reason(bpf.AliothReasonREPLIED_REFUSED)
	ToStack         = Reason(bpf.AliothReasonTO_STACK)
	FromStack       = Reason(bpf.AliothReasonFROM_STACK)
)

// Reasons of drops that send RepliedRefused to a sender, if it may get an error.
const (
	ServicePort  = Reason(bpf.AliothReasonDROP_SERVICE_PORT)
	NoBackend    = Reason(bpf.AliothReasonDROP_NO_BACKEND)
	ConnConflict = Reason(bpf.AliothReasonDROP_CONN_CONFLICT)
)

// reasonNames has the name of every reason, for metrics and users.
var reasonNames = [bpf.AliothReasonREASON_LEN]string{
	bpf.AliothReasonUNDECIDED: "undecided",

	// The packet was forwarded or answered.
	bpf.AliothReasonFORWARDED_LOCAL:  "forwarded_local",  // to an interface of this node
	bpf.AliothReasonFORWARDED_REMOTE: "forwarded_remote", // into the tunnel
	bpf.AliothReasonFORWARDED_ROLE:   "forwarded_role",   // into the tunnel, to a bouncer or divider or by one
	bpf.AliothReasonRETURNED:         "returned",         // from the tunnel, to the node that sent it: its destination is not here
	bpf.AliothReasonREPLIED:          "replied",          // answered in place: ARP, ND, a gateway's echo
	bpf.AliothReasonREPLIED_TOO_BIG:  "replied_too_big",  // exceeded the path's MTU; the sender got an ICMP error
	// To a service that has no backend or lacks the port, or whose backend has a flow from this
	// port; the sender got an error at once.
	bpf.AliothReasonREPLIED_REFUSED:   "replied_refused",
	bpf.AliothReasonTO_STACK:          "to_stack",          // to the host's stack, from the pod's shadow address
	bpf.AliothReasonFROM_STACK:        "from_stack",        // from the host's stack, to the pod's shadow address
	bpf.AliothReasonPROBE_REWRITTEN:   "probe_rewritten",   // a connect of the kubelet's for a probe, to a shadow
	bpf.AliothReasonHOOK_REWRITTEN:    "hook_rewritten",    // a connect of the kubelet's for a lifecycle hook, to a shadow
	bpf.AliothReasonSERVICE_REWRITTEN: "service_rewritten", // a connect or datagram to a service, to a backend, at the socket

	// The packet could not be read.
	bpf.AliothReasonDROP_UNKNOWN_INTERFACE: "unknown_interface", // the device has a program, but no row
	bpf.AliothReasonDROP_VLAN:              "vlan",
	bpf.AliothReasonDROP_ETHERTYPE:         "ethertype", // neither IP nor ARP
	bpf.AliothReasonDROP_BAD_HEADER:        "bad_header",
	bpf.AliothReasonDROP_EXTENSION_HEADERS: "extension_headers", // too many of IPv6

	// The source is not the sender's own.
	bpf.AliothReasonDROP_SPOOFED_MAC:   "spoofed_mac",
	bpf.AliothReasonDROP_SPOOFED_IP:    "spoofed_ip",
	bpf.AliothReasonDROP_SPOOFED_LOCAL: "spoofed_local", // from the tunnel, with the address of a pod of this node

	// Link-local protocols and groups.
	bpf.AliothReasonDROP_ARP_OWN:             "arp_own",   // asks for the pod's own address
	bpf.AliothReasonDROP_ARP_OTHER:           "arp_other", // no request
	bpf.AliothReasonDROP_ND_OWN:              "nd_own",    // asks for the pod's own address, or detects duplicates
	bpf.AliothReasonDROP_ND_OTHER:            "nd_other",  // no solicitation
	bpf.AliothReasonDROP_ROUTER_SOLICITATION: "router_solicitation",
	bpf.AliothReasonDROP_MLD:                 "mld",
	bpf.AliothReasonDROP_MULTICAST:           "multicast",
	bpf.AliothReasonDROP_BROADCAST:           "broadcast",

	// Inside the VPC.
	bpf.AliothReasonDROP_GATEWAY_CLOSED:      "gateway_closed",      // a gateway answers only echo requests
	bpf.AliothReasonDROP_NO_ENDPOINT:         "no_endpoint",         // no interface has this address of a subnet
	bpf.AliothReasonDROP_HELD_OUTSIDE:        "held_outside",        // an interface of another CNI plugin has it
	bpf.AliothReasonDROP_NO_SUBNET:           "no_subnet",           // no subnet has this address of the VPC
	bpf.AliothReasonDROP_NO_INTERFACE:        "no_interface",        // the address leads to an interface without a row
	bpf.AliothReasonDROP_VNI_MISMATCH:        "vni_mismatch",        // the address belongs to an interface of another VPC
	bpf.AliothReasonDROP_WRONG_NODE:          "wrong_node",          // from the tunnel, for an address of another node
	bpf.AliothReasonDROP_OUTSIDE_DEFAULT_VPC: "outside_default_vpc", // from the node's interface, to outside its VPC
	// Exceeds the path's MTU, and the sender gets no error, or no further one.
	bpf.AliothReasonDROP_TOO_BIG: "too_big",

	// Shadow addresses.
	bpf.AliothReasonDROP_NO_SHADOW:       "no_shadow",       // the interface has no shadow address in this family
	bpf.AliothReasonDROP_NOT_SHADOW:      "not_shadow",      // the host's stack sent to another address than the shadow address
	bpf.AliothReasonDROP_NODE_CLOSED:     "node_closed",     // a pod opens a connection to the node
	bpf.AliothReasonDROP_EGRESS_PROTOCOL: "egress_protocol", // neither TCP, UDP, SCTP nor ICMP
	// A later fragment whose first was not forwarded, or one of TCP to the node or a service.
	bpf.AliothReasonDROP_EGRESS_FRAGMENT: "egress_fragment",
	bpf.AliothReasonDROP_EGRESS_OPTIONS:  "egress_options", // IPv4 options or an IPv6 routing header, in a packet to outside the VPC

	bpf.AliothReasonDROP_ICMP_UNRELATED: "icmp_unrelated", // an ICMP error about a packet that was not sent to the pod

	// Services.
	bpf.AliothReasonDROP_SERVICE_PORT:  "service_port", // no such port at this service's address
	bpf.AliothReasonDROP_SERVICE_ICMP:  "service_icmp", // to a shared one, or no echo request
	bpf.AliothReasonDROP_NO_BACKEND:    "no_backend",
	bpf.AliothReasonDROP_NO_CONNECTION: "no_connection", // TCP, but no flow and no opening
	bpf.AliothReasonDROP_CONN_LIMIT:    "conn_limit",    // the interface has reached its limit of flows
	bpf.AliothReasonDROP_CONN_FULL:     "conn_full",     // the node's table of flows is full
	bpf.AliothReasonDROP_CONN_CONFLICT: "conn_conflict", // the same port already talks to this backend by another service

	// Egress.
	bpf.AliothReasonDROP_EGRESS_CLOSED:      "egress_closed", // the VPC has none
	bpf.AliothReasonDROP_EGRESS_SHADOW:      "egress_shadow",
	bpf.AliothReasonDROP_EGRESS_NODE:        "egress_node",
	bpf.AliothReasonDROP_EGRESS_DEFAULT_VPC: "egress_default_vpc",
	bpf.AliothReasonDROP_EGRESS_SERVICE:     "egress_service",
	bpf.AliothReasonDROP_EGRESS_LINK_LOCAL:  "egress_link_local",
	bpf.AliothReasonDROP_EGRESS_MULTICAST:   "egress_multicast",
	bpf.AliothReasonDROP_EGRESS_DENIED:      "egress_denied",   // on the VPC's list egressDeny
	bpf.AliothReasonDROP_EGRESS_UNLISTED:    "egress_unlisted", // not on the VPC's list egressAllow
	bpf.AliothReasonDROP_EGRESS_METADATA:    "egress_metadata", // a cloud's metadata address
	bpf.AliothReasonDROP_EGRESS_TUNNEL_PORT: "egress_tunnel_port",

	// The tunnel.
	bpf.AliothReasonDROP_NO_TUNNEL_KEY: "no_tunnel_key",
	bpf.AliothReasonDROP_UNKNOWN_NODE:  "unknown_node",
	bpf.AliothReasonDROP_UNKNOWN_VNI:   "unknown_vni",
	bpf.AliothReasonDROP_TUNNEL_FLOOD:  "tunnel_flood", // ARP, ND or a group

	// Classes of packets from the tunnel.
	bpf.AliothReasonDROP_RETURNED_FOREIGN: "returned_foreign", // returned, but no pod here sent it to the node that returned it
	bpf.AliothReasonDROP_RETURNED_HOME:    "returned_home",    // returned, but its destination is on this node
	bpf.AliothReasonDROP_STALE_ROW:        "stale_row",        // returned, and sent again by no other row
	bpf.AliothReasonDROP_NOT_MEMBER:       "not_member",       // for a role that this node does not play
	bpf.AliothReasonDROP_NO_MEMBER:        "no_member",        // for a role that no other node plays
	bpf.AliothReasonDROP_ROLE_INCOMPLETE:  "role_incomplete",  // this member has not read its whole table yet, and no row for the packet

	// Sockets of the node.
	bpf.AliothReasonDROP_SHADOW_SOCKET:  "shadow_socket",  // to a pod's shadow address, and neither the kubelet's nor a reply
	bpf.AliothReasonDROP_TUNNEL_SOCKET:  "tunnel_socket",  // to the tunnel's port
	bpf.AliothReasonDROP_FORGED_NODE:    "forged_node",    // by a pod's interface on the node's network
	bpf.AliothReasonDROP_KUBELET_NO_POD: "kubelet_no_pod", // a connect of the kubelet to a pod that has no interface
	bpf.AliothReasonDROP_GUARDED_PORT:   "guarded_port",   // a connect of a pod's process to the port of the node IPAM API

	// Network policies.
	bpf.AliothReasonDROP_POLICY_INGRESS: "policy_ingress", // the receiver's rules refuse it
	bpf.AliothReasonDROP_POLICY_EGRESS:  "policy_egress",  // the sender's rules refuse it
	bpf.AliothReasonDROP_POLICY_UNKNOWN: "policy_unknown", // the peer's identity is not known on this node
	bpf.AliothReasonDROP_POLICY_FULL:    "policy_full",    // no room for a new flow of a guarded interface

	bpf.AliothReasonDROP_REWRITE_FAILED: "rewrite_failed",
}

// String returns the reason's name, as in metrics.
func (r Reason) String() string {
	if uint64(r) < uint64(len(reasonNames)) {
		return reasonNames[r]
	}
	return "reason_" + strconv.FormatUint(uint64(r), 10)
}

// Drop reports whether the packet was dropped.
func (r Reason) Drop() bool { return r >= Reason(bpf.AliothReasonDROP_UNKNOWN_INTERFACE) }

// Direction is the hook and direction at which a program saw a packet.
type Direction uint32

// Directions of counters.
const (
	FromPod    = Direction(bpf.AliothDirectionDIRECTION_FROM_POD)
	ToPod      = Direction(bpf.AliothDirectionDIRECTION_TO_POD)
	FromTunnel = Direction(bpf.AliothDirectionDIRECTION_FROM_TUNNEL)
	Socket     = Direction(bpf.AliothDirectionDIRECTION_SOCKET)
	ToTunnel   = Direction(bpf.AliothDirectionDIRECTION_TO_TUNNEL)
)

var directionNames = [bpf.AliothDirectionDIRECTION_LEN]string{
	FromPod:    "from_pod",
	ToPod:      "to_pod",
	FromTunnel: "from_tunnel",
	Socket:     "socket",
	ToTunnel:   "to_tunnel",
}

// String returns the direction's name, as in metrics.
func (d Direction) String() string {
	if uint64(d) < uint64(len(directionNames)) {
		return directionNames[d]
	}
	return "direction_" + strconv.FormatUint(uint64(d), 10)
}
