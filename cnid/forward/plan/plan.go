// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan computes the desired state of a node: from a snapshot of the store and
// the attachments in the journal it computes the states of the datapath, the devices and
// the packet filter. It is pure: it reads no clock, no kernel and no API, and the same
// input gives the same output, sorted.
//
// A node has state for the VPCs with an attachment on it, and for the default VPC once
// the node has an address of its own there. Each VPC is planned by itself, from its own
// rows and the nodes' (vpc.go). The parts that belong to no single VPC are planned after
// that, from the plans of the VPCs (node.go). A Planner keeps all parts until their input
// changes.
package plan

import (
	"errors"
	"net/netip"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/cnid/forward/tablesync"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// Config holds the inputs of a plan that do not change while a daemon runs.
type Config struct {
	// Node is the name of this node.
	Node string
	// DefaultVPC is the name of the default VPC.
	DefaultVPC string
	// Shadows are the ranges of shadow addresses, at most one per family.
	Shadows []netip.Prefix
	// ServiceRanges are the cluster's service ranges.
	ServiceRanges []netip.Prefix
	// SharedServices are those that every VPC reaches, beside those that
	// SharedService objects name.
	SharedServices []serviceplan.Ref
	// APIServer is the Service whose backends the node itself must reach under
	// their real addresses.
	APIServer serviceplan.Ref
	// Reserved are further addresses of API servers, which the node itself must reach.
	Reserved []netip.Addr
	// Infrastructure are ranges whose hosts the kubelet may contact for itself.
	Infrastructure []netip.Prefix
	// Metadata are the addresses of cloud metadata services, closed to every VPC
	// that does not list them by themselves.
	Metadata []netip.Addr
	// TunnelPort is the UDP port of VXLAN.
	TunnelPort uint16
	// ProxyHealthPort is the TCP port at which load balancers outside ask about the
	// node; 0: they don't.
	ProxyHealthPort uint16
	// FlowsPerShadow is ruleset.State.FlowsPerShadow.
	FlowsPerShadow uint32
	// NodePorts reports that Services are reached by ports of this node, and by
	// addresses that lead to it.
	NodePorts bool
	// ScaledEndpoints reports that the operator judges who the backends of Services are. The
	// node follows its ScaledEndpoints then, and no Services, EndpointSlices and Networks.
	ScaledEndpoints bool
	// Kinds has the kinds of attachments, with their capabilities.
	Kinds ifdriver.Catalog
	// NetnsCookie is the cookie of the node's own network namespace. 0 means unknown: the
	// namespace is left out.
	NetnsCookie uint64
}

// Input holds the inputs of a plan beside the store.
type Input struct {
	Config
	// Records are all records of the journal, the oldest first. To a Planner the
	// same slice has the same content.
	Records []journal.Record
	// Removed are records of attachments that are gone and that the kubelet may still
	// probe for a moment.
	Removed []journal.Record
	// Devices are the indexes of the host ends that exist, by name. A record
	// whose device has gone is left out until it is undone.
	Devices map[string]int
	// NodePeer is the index of hostdev.NodePeer.
	NodePeer int
	// Tables names the tables that the store has completely; nil: all tables. To a Planner
	// the same pointer has the same content.
	Tables *tablesync.Tables
}

// Wanted holds the wanted state of the node: datapath, devices, packet filter and health checks.
type Wanted struct {
	Datapath state.Parts
	Devices  hostdev.State
	Filter   ruleset.State
	Health   []serviceplan.HealthCheck
	// ClosedPorts lead to none of the running pods that ask for them.
	ClosedPorts []ClosedPort
	// Lost are the attachments that are left out of it all. Without an interface
	// of the datapath nothing goes in or out by them.
	Lost []Lost
	// Roles holds the report about roles for the time when the rest is programmed.
	Roles Roles
}

// Announced are the external addresses that this node answers for.
func (w Wanted) Announced() []netip.Addr {
	if node := w.Datapath.VPCs[0]; node != nil {
		return node.Announced
	}
	return nil
}

// Lost is an attachment that the API has nothing for any more.
type Lost struct {
	Record journal.Record
	// Reason is the text for users.
	Reason string
}

// ErrLost reports that an attachment uses an address that is not its pod's.
var ErrLost = errors.New("the pod has lost its address; delete the pod")

// Build computes what the node has to hold, from nothing.
func Build(tx store.ReadTx, in Input) Wanted {
	var p Planner
	return p.Plan(tx, in)
}

// Programmed returns the rows of the datapath for an attachment whose packets its programs
// meet at hook: its interface, and its addresses.
func Programmed(rec journal.Record, hook ifdriver.Hook) state.State {
	iface := state.Interface{
		Ifindex: rec.Device.HostIfindex, VNI: rec.VNI, MAC: state.MAC(rec.MAC),
		Shadow4: rec.Shadow4, Shadow6: rec.Shadow6, Netkit: hook == ifdriver.HookPodEnd,
	}
	iface.Gateway4, iface.Gateway6 = onePerFamily(rec.Gateways)
	var s state.State
	for _, prefix := range rec.Addrs {
		iface.Addrs = append(iface.Addrs, prefix.Addr())
		s.Addresses = append(s.Addresses, localAddress(prefix.Addr(), iface))
	}
	s.Interfaces = []state.Interface{iface}
	return s
}

// onePerFamily returns the first address of each family.
func onePerFamily(ips []netip.Addr) (v4, v6 netip.Addr) {
	for _, ip := range ips {
		switch {
		case ip.Is4() && !v4.IsValid():
			v4 = ip
		case ip.Is6() && !v6.IsValid():
			v6 = ip
		}
	}
	return v4, v6
}

func localAddress(ip netip.Addr, iface state.Interface) state.Address {
	return state.Address{VNI: iface.VNI, IP: ip, Kind: state.Local, Ifindex: iface.Ifindex, MAC: iface.MAC}
}

func shadowsOf(rec journal.Record) []netip.Addr {
	var list []netip.Addr
	for _, shadow := range []netip.Addr{rec.Shadow4, rec.Shadow6} {
		if shadow.IsValid() {
			list = append(list, shadow)
		}
	}
	return list
}
