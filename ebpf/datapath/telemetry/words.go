// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"slices"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// explanation is the text for users about a reason: the event, and the remedy; "" if nothing has
// to be done.
type explanation struct{ means, remedy string }

// Remedies that several reasons share.
const (
	tellUs    = "an internal error: run aliothctl verify, and report it"
	ownSource = "virtual machines or containers inside a pod need addresses from Alioth; in other cases inspect the pod"
	useName   = "send to the pods or services directly: a VPC has no flooding"
	plainTCP  = "use TCP, UDP, SCTP or ICMP outside the VPC"
)

// explanations has one for every drop. docs/reference/reasons.md repeats them, and a test
// compares the two.
var explanations = [bpf.AliothReasonREASON_LEN]explanation{
	bpf.AliothReasonDROP_UNKNOWN_INTERFACE: {
		"the device does not belong to a pod yet, or any more",
		"nothing if it stops; otherwise run aliothctl verify",
	},
	bpf.AliothReasonDROP_VLAN: {
		"the frame has a VLAN tag",
		"send untagged frames: a pod's interface is in one VPC only",
	},
	bpf.AliothReasonDROP_ETHERTYPE: {"the frame is neither IPv4, IPv6 nor ARP", "use IP"},
	bpf.AliothReasonDROP_BAD_HEADER: {
		"a header is cut off or contradicts itself",
		"look for a broken sender with tcpdump in the pod",
	},
	bpf.AliothReasonDROP_EXTENSION_HEADERS: {"more than six IPv6 extension headers", "send fewer"},

	bpf.AliothReasonDROP_SPOOFED_MAC: {"the sender's Ethernet address is not the interface's own", ownSource},
	bpf.AliothReasonDROP_SPOOFED_IP:  {"the sender's IP address is not the interface's own", ownSource},
	bpf.AliothReasonDROP_SPOOFED_LOCAL: {
		"another node sent it with the source address of a pod of this node",
		"look for two pods with one address: run aliothctl verify",
	},

	bpf.AliothReasonDROP_ARP_OWN:             {"the pod asks for the owner of its own address, which is unique", ""},
	bpf.AliothReasonDROP_ARP_OTHER:           {"an ARP packet other than a request", ""},
	bpf.AliothReasonDROP_ND_OWN:              {"the pod asks for the owner of its own address, which is unique", ""},
	bpf.AliothReasonDROP_ND_OTHER:            {"neighbour discovery other than a solicitation", ""},
	bpf.AliothReasonDROP_ROUTER_SOLICITATION: {"the pod solicits a router; its routes are set already", ""},
	bpf.AliothReasonDROP_MLD: {
		"the kernel of a pod or node reports its multicast groups, which a VPC does not have",
		"",
	},
	bpf.AliothReasonDROP_MULTICAST: {"sent to a multicast group", useName},
	bpf.AliothReasonDROP_BROADCAST: {"sent to a broadcast address", useName},

	bpf.AliothReasonDROP_GATEWAY_CLOSED: {
		"a gateway answers only echo requests",
		"send to a pod or a service instead",
	},
	bpf.AliothReasonDROP_NO_ENDPOINT: {
		"no pod or Service of the VPC has this address",
		"check that the pod runs: kubectl get pods -A -o wide, kubectl get addresses",
	},
	bpf.AliothReasonDROP_HELD_OUTSIDE: {
		"another CNI plugin has made the interface with this address, and Alioth does not lead to it",
		"use the network of that plugin, or give the pod a Network of Alioth",
	},
	bpf.AliothReasonDROP_NO_SUBNET: {
		"no subnet of the VPC has this address",
		"check the address; another VPC can't be reached by design",
	},
	bpf.AliothReasonDROP_NO_INTERFACE: {
		"the pod's interface is gone",
		"nothing if the pod is ending; otherwise run aliothctl verify",
	},
	bpf.AliothReasonDROP_VNI_MISMATCH: {"the address belongs to an interface of another VPC", tellUs},
	bpf.AliothReasonDROP_WRONG_NODE: {
		"the sending node assumes the receiver on this node, but it is not here",
		"nothing if the pod has just moved; otherwise run aliothctl verify",
	},
	bpf.AliothReasonDROP_OUTSIDE_DEFAULT_VPC: {
		"the node sent it into the default VPC, whose ranges do not contain the address",
		"check the node's routes",
	},

	bpf.AliothReasonDROP_TOO_BIG: {
		"larger than the path's MTU; no ICMP error is sent, or one was sent a moment ago",
		"recreate the pods, so that their interfaces get the MTU that aliothctl status shows",
	},

	bpf.AliothReasonDROP_NO_SHADOW: {
		"the interface has no shadow address of this family, so nothing leaves its VPC",
		"give the VPC a range of the family, or set the chart's shadowCIDRs for it",
	},
	bpf.AliothReasonDROP_NOT_SHADOW: {
		"the node sent to another address than the pod's shadow; a pod's own address is valid only inside its VPC",
		"reach the pod from inside its VPC, by a probe, or by kubectl exec or port-forward",
	},
	bpf.AliothReasonDROP_NODE_CLOSED: {
		"a pod may not open connections to its node",
		"use a Service, or a pod in the default VPC",
	},
	bpf.AliothReasonDROP_EGRESS_PROTOCOL: {"neither TCP, UDP, SCTP nor ICMP", plainTCP},
	bpf.AliothReasonDROP_EGRESS_FRAGMENT: {
		"a fragment without the first one of its datagram before it, or a fragment of TCP to the node or a service",
		"send packets that fit the pod's MTU",
	},
	bpf.AliothReasonDROP_EGRESS_OPTIONS: {
		"IPv4 options or an IPv6 routing header, in a packet to outside the VPC",
		"send without them",
	},
	bpf.AliothReasonDROP_ICMP_UNRELATED: {
		"an ICMP error that does not quote a packet from its receiver to the pod, ports included, or is fragmented",
		"find the program in the pod that forges ICMP errors: its kernel does not send such packets",
	},

	bpf.AliothReasonDROP_SERVICE_PORT: {
		"the service does not have this port or protocol; no error is sent, or one was sent a moment ago",
		"kubectl get service shows its ports",
	},
	bpf.AliothReasonDROP_SERVICE_ICMP: {
		"an echo request to a shared service, or ICMP other than echo requests and errors to any service",
		"connect to one of its ports",
	},
	bpf.AliothReasonDROP_NO_BACKEND: {
		"the service has no ready backend; no error is sent, or one was sent a moment ago",
		"check kubectl get endpointslices; events of the Service name ignored endpoints",
	},
	bpf.AliothReasonDROP_NO_CONNECTION: {
		"TCP to a service, of an unknown connection",
		"open a new connection; this one was idle for hours, or its backend is gone",
	},
	bpf.AliothReasonDROP_CONN_LIMIT: {
		"the pod has reached its limit of flows to services",
		"let it reuse connections; --service-flows-per-pod of alioth-cnid is the limit",
	},
	bpf.AliothReasonDROP_CONN_FULL: {
		"the node's table of flows to services is full",
		"spread the pods over more nodes",
	},
	bpf.AliothReasonDROP_CONN_CONFLICT: {
		"the same source port already has an open flow to this backend through another service; no error is sent, or one was sent a moment ago",
		"nothing: the next attempt takes another port",
	},

	bpf.AliothReasonDROP_EGRESS_CLOSED: {
		"the VPC has no egress",
		"set spec.egress of the VPC to Masquerade, if its pods may leave it; to reach a Service, name a Network of this VPC in the label arktos.futurewei.com/network of the Service",
	},
	bpf.AliothReasonDROP_EGRESS_SHADOW: {
		"a shadow address, which only the node may use",
		"use the pod's own address, inside its VPC",
	},
	bpf.AliothReasonDROP_EGRESS_NODE: {
		"an address of a node, which is closed to tenants",
		"use a Service, or a pod in the default VPC; for a node port of a Service of this VPC, add the node to spec.egressAllow of the VPC if that has entries, and leave it out of spec.egressDeny",
	},
	bpf.AliothReasonDROP_EGRESS_DEFAULT_VPC: {
		"an address of the default VPC, which is closed to other VPCs",
		"share the destination with a SharedService object",
	},
	bpf.AliothReasonDROP_EGRESS_SERVICE: {
		"a service's address that this VPC does not have",
		"check the address, and the Network in the label arktos.futurewei.com/network of the Service; only shared services are reached from every VPC",
	},
	bpf.AliothReasonDROP_EGRESS_LINK_LOCAL: {"a link-local address, which is valid only on its link", ""},
	bpf.AliothReasonDROP_EGRESS_MULTICAST:  {"a multicast or reserved address", ""},
	bpf.AliothReasonDROP_EGRESS_DENIED: {
		"on the VPC's list of denied destinations",
		"remove it from spec.egressDeny of the VPC, if its pods may reach it",
	},
	bpf.AliothReasonDROP_EGRESS_UNLISTED: {
		"not on the VPC's list of allowed destinations",
		"add it to spec.egressAllow of the VPC",
	},
	bpf.AliothReasonDROP_EGRESS_METADATA: {
		"the cloud's metadata address, which is closed to this VPC",
		"add it to spec.egressAllow of the VPC, if its pods may get the node's credentials",
	},
	bpf.AliothReasonDROP_EGRESS_TUNNEL_PORT: {"UDP to the tunnel's port", "use another port"},

	bpf.AliothReasonDROP_NO_TUNNEL_KEY: {
		"it came through the tunnel's device without tunnel metadata",
		"find the program that sends into alioth_vxlan on the node",
	},
	bpf.AliothReasonDROP_UNKNOWN_NODE: {
		"tunnel traffic from an address that no node has",
		"if it is a node: its Node object must list the address as InternalIP",
	},
	bpf.AliothReasonDROP_UNKNOWN_VNI: {
		"tunnel traffic for a VPC that has no pod on this node",
		"nothing if its last pod has just been deleted; otherwise run aliothctl verify",
	},
	bpf.AliothReasonDROP_TUNNEL_FLOOD: {
		"ARP, neighbour discovery or multicast through the tunnel, which nodes never send",
		"find the sender: the event names the node",
	},

	bpf.AliothReasonDROP_RETURNED_FOREIGN: {
		"another node returned it, but no pod of this node sends it to that node, or does so no longer",
		"nothing if the receiver has just moved; otherwise the other node is broken or hostile: the event names it",
	},
	bpf.AliothReasonDROP_RETURNED_HOME: {
		"another node returned it, but the receiver is on this node",
		"nothing if the receiver has just come to this node; otherwise the other node is broken or hostile: the event names it",
	},
	bpf.AliothReasonDROP_STALE_ROW: {
		"another node returned it: the receiver is not there, though this node assumes so",
		"nothing if the receiver has just moved or ended; otherwise run aliothctl verify",
	},
	bpf.AliothReasonDROP_NOT_MEMBER: {
		"another node sent it on to a bouncer or divider, which this node is not",
		"nothing if it stops; otherwise run aliothctl verify: the event names the node",
	},

	bpf.AliothReasonDROP_NO_MEMBER: {
		"no other node is a bouncer of the subnet, or a divider of the VPC",
		"look at the condition RolesReady of the Subnet and the VPC",
	},
	bpf.AliothReasonDROP_ROLE_INCOMPLETE: {
		"this bouncer or divider has just started, and has not read its whole table yet",
		"nothing if it stops: a retry goes over another one; otherwise look at the log of alioth-cnid on this node",
	},

	bpf.AliothReasonDROP_KUBELET_NO_POD: {
		"the kubelet probes a pod whose interface does not exist yet, or any more",
		"nothing while a pod starts or ends; otherwise check the events of this node's pods",
	},
	bpf.AliothReasonDROP_GUARDED_PORT: {
		"a pod on the node's network connected to the TCP port of the node IPAM API, which is for processes of the node",
		"find the hostNetwork pod; a CNI plugin connects from the container runtime",
	},

	bpf.AliothReasonDROP_SHADOW_SOCKET: {
		"a program on the node's network sent to a pod's shadow; only the kubelet may open flows there",
		"find the program or hostNetwork pod (docs/troubleshoot/lost-packets.md); use Services, hostPorts or kubectl port-forward",
	},
	bpf.AliothReasonDROP_TUNNEL_SOCKET: {
		"a program on the node's network sent to the tunnel's port",
		"find the program or hostNetwork pod (docs/troubleshoot/lost-packets.md): it sends into VPCs",
	},
	bpf.AliothReasonDROP_FORGED_NODE: {
		"a pod's interface on the nodes' network sent with the address of a node, or to the UDP port of the tunnel or of VXLAN links",
		"find the pod (docs/troubleshoot/lost-packets.md): it attacks the nodes, or has an address of a node",
	},

	bpf.AliothReasonDROP_POLICY_INGRESS: {
		"a network policy of the receiver does not allow the flow, or the flow is not known any more",
		"allow it by a rule, if it is wanted: aliothctl netpol explains the verdict; open the connection again, if it was idle for hours",
	},
	bpf.AliothReasonDROP_POLICY_EGRESS: {
		"a network policy of the sender does not allow the flow, or the flow is not known any more",
		"allow it by a rule, if it is wanted: aliothctl netpol explains the verdict; open the connection again, if it was idle for hours",
	},
	bpf.AliothReasonDROP_POLICY_UNKNOWN: {
		"the node does not know the labels of the other pod yet, so no network policy can be judged",
		"nothing if it stops within seconds; otherwise look at the log of alioth-cnid on this node",
	},
	bpf.AliothReasonDROP_POLICY_FULL: {
		"the pod has reached its limit of flows that network policies judge, or the node's table of them is full",
		"let the pod reuse connections, or find the sender that floods it; --service-flows-per-pod of alioth-cnid is the limit",
	},

	bpf.AliothReasonDROP_REWRITE_FAILED: {"the kernel refused to change the packet", tellUs},
}

// Means explains in words the event of the packet; for a forwarded packet, its destination.
func (e Event) Means() string {
	switch {
	case e.Reason.Drop():
		return e.Reason.Means()
	case e.Reason == ToStack:
		return leftFor[e.PacketMark&state.MarkMask]
	}
	return wentOn[e.Reason]
}

// wentOn has the words for the reasons of forwarded packets that Flows reports.
var wentOn = map[Reason]string{
	ForwardedLocal:  "delivered on this node",
	ForwardedRemote: "sent to another node",
	ForwardedRole:   "sent to a bouncer or divider, or sent on by one",
	FromStack:       "sent into the VPC from the node",
}

// leftFor has the words for the destination of a packet that left its VPC, by its mark.
var leftFor = map[uint32]string{
	state.MarkShared: "sent to a shared service",
	state.MarkEgress: "sent to the outside",
	state.MarkNode:   "sent to the outside or a node",
	0:                "passed to the node, as a reply to it or to a client outside",
}

// Means explains in words the event of a dropped packet; "" for a reason that is not a drop.
func (r Reason) Means() string { return r.explanation().means }

// Remedy explains the remedy in words; "" if nothing has to be done.
func (r Reason) Remedy() string { return r.explanation().remedy }

// Routine reports whether drops of this reason are packets that every host's kernel
// sends by itself when an interface comes up, and need no attention.
func (r Reason) Routine() bool { return slices.Contains(routine, r) }

// routine are multicast listener reports, router solicitations, and the probes of a host for
// duplicates of its own address.
var routine = []Reason{
	Reason(bpf.AliothReasonDROP_MLD), Reason(bpf.AliothReasonDROP_ROUTER_SOLICITATION),
	Reason(bpf.AliothReasonDROP_ARP_OWN), Reason(bpf.AliothReasonDROP_ND_OWN),
}

func (r Reason) explanation() explanation {
	if uint64(r) < uint64(len(explanations)) {
		return explanations[r]
	}
	return explanation{
		means:  "a reason unknown to this version of aliothctl",
		remedy: "use the aliothctl of the daemon's release",
	}
}
