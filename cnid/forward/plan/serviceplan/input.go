// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceplan computes the part of Services in the desired state of a node, for
// package plan. It plans each Service by itself from a snapshot of the store, and keeps the
// plan until a row of the Service changes. Virtual addresses and frontends, which two Services
// can claim, belong to the older Service. The package is pure.
package serviceplan

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/alioth-net/alioth/store"
)

// Ref names a Service.
type Ref struct {
	Namespace, Name string
}

// RefOf returns the name of a Service.
func RefOf(service *store.Service) Ref { return Ref{service.Namespace, service.Name} }

// String returns the reference in the form namespace/name.
func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// ParseRef reads a reference in the form namespace/name.
func ParseRef(text string) (Ref, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Ref{}, fmt.Errorf("service %q: want namespace/name", text)
	}
	return Ref{Namespace: namespace, Name: name}, nil
}

// Config is the part of plan.Config that Services depend on. The fields have the same names.
type Config struct {
	Node, DefaultVPC       string
	Shadows, ServiceRanges []netip.Prefix
	SharedServices         []Ref
	TunnelPort             uint16
	NodePorts              bool
	ScaledEndpoints        bool
}

// VPCAddress is an address of a VPC, or of a network outside of VPCs by its domain.
type VPCAddress struct {
	VPC string
	IP  netip.Addr
}

// Here describes the VPCs and the networks outside of VPCs that are present on the node.
type Here struct {
	// Numbers has the VNIs of the VPCs with an interface here by name, and the numbers of
	// networks outside by domain.
	Numbers map[string]uint32
	// Reached has the addresses at which the node reaches local backends: a pod at its
	// shadow address, and a pod on the node's network at the node's own address.
	Reached map[VPCAddress]netip.Addr
	// Relays reports that this node has an address in the default VPC. It forwards from there
	// to other nodes.
	Relays bool
}

// Stale selects the Services to plan again.
type Stale struct {
	Refs map[Ref]bool
	// VPCs selects all Services of these VPCs, before and after the change.
	VPCs map[string]bool
	// Named selects the Services whose slices name one of the addresses. Anywhere does so in
	// any VPC.
	Named    map[VPCAddress]bool
	Anywhere map[netip.Addr]bool
	// All selects all Services, Exposed the Services that clients outside reach, and Wide the
	// Services that depend on more than held addresses: see services.IsWide.
	All, Exposed, Wide bool
	// Here reports that the interfaces of VPCs on this node may have changed.
	Here bool
}

// NewStale selects nothing.
func NewStale() Stale {
	return Stale{
		Refs:     map[Ref]bool{},
		VPCs:     map[string]bool{},
		Named:    map[VPCAddress]bool{},
		Anywhere: map[netip.Addr]bool{},
	}
}

// Mark selects a Service by its name.
func (s *Stale) Mark(namespace, name string) { s.Refs[Ref{namespace, name}] = true }

// NeedsHere reports whether the plan needs a new Here. A Wide change may be one of this node's
// addresses.
func (s *Stale) NeedsHere() bool { return s.Here || s.All || s.Wide }

// HealthCheck is the reply to external load balancers at a port of this node.
type HealthCheck struct {
	Service Ref
	Port    uint16
	// Backends is the number of ready backends of the Service on this node.
	Backends int
}
