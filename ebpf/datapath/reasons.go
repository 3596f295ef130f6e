// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import "strconv"

// Reason says what became of a packet. The zero value is never counted.
type Reason uint32

// Reasons of packets that go on, by where they go.
const (
	ForwardedLocal  = Reason(aliothReasonFORWARDED_LOCAL)
	ForwardedRemote = Reason(aliothReasonFORWARDED_REMOTE)
	Replied         = Reason(aliothReasonREPLIED)
	RepliedTooBig   = Reason(aliothReasonREPLIED_TOO_BIG)
	RepliedRefused  = Reason(aliothReasonREPLIED_REFUSED)
	ToStack         = Reason(aliothReasonTO_STACK)
	FromStack       = Reason(aliothReasonFROM_STACK)
)

// reasonNames has a name for every reason, in terms of metrics and of people.
var reasonNames = [aliothReasonREASON_LEN]string{
	aliothReasonUNDECIDED: "undecided",

	// The packet went on.
	aliothReasonFORWARDED_LOCAL:   "forwarded_local",   // to an interface of this node
	aliothReasonFORWARDED_REMOTE:  "forwarded_remote",  // into the tunnel
	aliothReasonREPLIED:           "replied",           // answered in place: ARP, ND, a gateway's echo
	aliothReasonREPLIED_TOO_BIG:   "replied_too_big",   // did not fit the way; the sender was told by ICMP
	aliothReasonREPLIED_REFUSED:   "replied_refused",   // to a service of its VPC that has no backend; the sender was told at once
	aliothReasonTO_STACK:          "to_stack",          // through the shadow door, to the host's stack
	aliothReasonFROM_STACK:        "from_stack",        // through the shadow door, to the pod
	aliothReasonPROBE_REWRITTEN:   "probe_rewritten",   // a connect of the kubelet's for a probe, to a shadow
	aliothReasonHOOK_REWRITTEN:    "hook_rewritten",    // a connect of the kubelet's for a lifecycle hook, to a shadow
	aliothReasonSERVICE_REWRITTEN: "service_rewritten", // a connect or datagram to a service, to a backend, at the socket

	// The packet could not be read.
	aliothReasonDROP_UNKNOWN_INTERFACE: "unknown_interface", // the device has a program, but no row
	aliothReasonDROP_VLAN:              "vlan",
	aliothReasonDROP_ETHERTYPE:         "ethertype", // neither IP nor ARP
	aliothReasonDROP_BAD_HEADER:        "bad_header",
	aliothReasonDROP_EXTENSION_HEADERS: "extension_headers", // too many of IPv6

	// The source is not the sender's own.
	aliothReasonDROP_SPOOFED_MAC:   "spoofed_mac",
	aliothReasonDROP_SPOOFED_IP:    "spoofed_ip",
	aliothReasonDROP_SPOOFED_LOCAL: "spoofed_local", // from the tunnel, under an address of this node's pods

	// Link-local protocols and groups.
	aliothReasonDROP_ARP_OWN:             "arp_own",   // asks for the pod's own address
	aliothReasonDROP_ARP_OTHER:           "arp_other", // no request
	aliothReasonDROP_ND_OWN:              "nd_own",    // asks for the pod's own address, or detects duplicates
	aliothReasonDROP_ND_OTHER:            "nd_other",  // no solicitation
	aliothReasonDROP_ROUTER_SOLICITATION: "router_solicitation",
	aliothReasonDROP_MLD:                 "mld",
	aliothReasonDROP_MULTICAST:           "multicast",
	aliothReasonDROP_BROADCAST:           "broadcast",

	// Inside the VPC.
	aliothReasonDROP_GATEWAY_CLOSED:      "gateway_closed",      // a gateway answers only echo requests
	aliothReasonDROP_NO_ENDPOINT:         "no_endpoint",         // nobody has this address of a subnet
	aliothReasonDROP_NO_SUBNET:           "no_subnet",           // no subnet has this address of the VPC
	aliothReasonDROP_NO_INTERFACE:        "no_interface",        // the address leads to an interface without a row
	aliothReasonDROP_VNI_MISMATCH:        "vni_mismatch",        // the address belongs to an interface of another VPC
	aliothReasonDROP_WRONG_NODE:          "wrong_node",          // from the tunnel, for an address of another node
	aliothReasonDROP_OUTSIDE_DEFAULT_VPC: "outside_default_vpc", // from the node's interface, to outside its VPC
	aliothReasonDROP_TOO_BIG:             "too_big",             // does not fit the way, and the sender is not told, or not again

	// The shadow door.
	aliothReasonDROP_NO_SHADOW:       "no_shadow",       // the interface has no door in this family
	aliothReasonDROP_NOT_SHADOW:      "not_shadow",      // the host's stack sent to something else than the shadow
	aliothReasonDROP_NODE_CLOSED:     "node_closed",     // a pod opens a connection to the node
	aliothReasonDROP_EGRESS_PROTOCOL: "egress_protocol", // neither TCP, UDP, SCTP nor ICMP
	aliothReasonDROP_EGRESS_FRAGMENT: "egress_fragment", // a later fragment whose first has not passed, or one of TCP to the node or a service
	aliothReasonDROP_EGRESS_OPTIONS:  "egress_options",  // IPv4 options or an IPv6 routing header, in a packet to outside the VPC

	aliothReasonDROP_ICMP_UNRELATED: "icmp_unrelated", // an ICMP error about a packet that was not sent to the pod

	// Services.
	aliothReasonDROP_SERVICE_PORT:  "service_port", // no such port at this service's address
	aliothReasonDROP_SERVICE_ICMP:  "service_icmp", // to a shared one, or no echo request
	aliothReasonDROP_NO_BACKEND:    "no_backend",
	aliothReasonDROP_NO_CONNECTION: "no_connection", // TCP, but no flow and no opening
	aliothReasonDROP_CONN_LIMIT:    "conn_limit",    // the interface holds its share of flows
	aliothReasonDROP_CONN_FULL:     "conn_full",     // the node's table of flows is full
	aliothReasonDROP_CONN_CONFLICT: "conn_conflict", // the same port already talks to this backend by another service

	// Egress.
	aliothReasonDROP_EGRESS_CLOSED:      "egress_closed", // the VPC has none
	aliothReasonDROP_EGRESS_SHADOW:      "egress_shadow",
	aliothReasonDROP_EGRESS_NODE:        "egress_node",
	aliothReasonDROP_EGRESS_DEFAULT_VPC: "egress_default_vpc",
	aliothReasonDROP_EGRESS_SERVICE:     "egress_service",
	aliothReasonDROP_EGRESS_LINK_LOCAL:  "egress_link_local",
	aliothReasonDROP_EGRESS_MULTICAST:   "egress_multicast",
	aliothReasonDROP_EGRESS_DENIED:      "egress_denied",   // on the VPC's list egressDeny
	aliothReasonDROP_EGRESS_UNLISTED:    "egress_unlisted", // not on the VPC's list egressAllow
	aliothReasonDROP_EGRESS_METADATA:    "egress_metadata", // a cloud's metadata address
	aliothReasonDROP_EGRESS_TUNNEL_PORT: "egress_tunnel_port",

	// The tunnel.
	aliothReasonDROP_NO_TUNNEL_KEY: "no_tunnel_key",
	aliothReasonDROP_UNKNOWN_NODE:  "unknown_node",
	aliothReasonDROP_UNKNOWN_VNI:   "unknown_vni",
	aliothReasonDROP_TUNNEL_FLOOD:  "tunnel_flood", // ARP, ND or a group

	// Sockets of the node.
	aliothReasonDROP_SHADOW_SOCKET:  "shadow_socket",  // to a pod's shadow, and neither the kubelet's nor an answer
	aliothReasonDROP_TUNNEL_SOCKET:  "tunnel_socket",  // to the tunnel's port
	aliothReasonDROP_KUBELET_NO_POD: "kubelet_no_pod", // a connect of the kubelet's to a pod that is not there, or not any more

	aliothReasonDROP_REWRITE_FAILED: "rewrite_failed",
}

// String returns the reason's name, as in metrics.
func (r Reason) String() string {
	if uint64(r) < uint64(len(reasonNames)) {
		return reasonNames[r]
	}
	return "reason_" + strconv.FormatUint(uint64(r), 10)
}

// Drop tells whether the packet was dropped.
func (r Reason) Drop() bool { return r >= Reason(aliothReasonDROP_UNKNOWN_INTERFACE) }

// Direction says which program saw a packet.
type Direction uint32

// Directions of counters.
const (
	FromPod    = Direction(aliothDirectionDIRECTION_FROM_POD)
	ToPod      = Direction(aliothDirectionDIRECTION_TO_POD)
	FromTunnel = Direction(aliothDirectionDIRECTION_FROM_TUNNEL)
	Socket     = Direction(aliothDirectionDIRECTION_SOCKET)
	ToTunnel   = Direction(aliothDirectionDIRECTION_TO_TUNNEL)
)

var directionNames = [aliothDirectionDIRECTION_LEN]string{
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
