// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/store/memory"
)

// ScaledEndpoint is the row of a ScaledEndpoint object: a part of what the operator has
// judged of a Service. Key: Name.
type ScaledEndpoint struct {
	Meta
	Name string
	ScaledID
	// Part is 0 for the part that has the head, up to 63.
	Part int
	// Head is nil in all other parts.
	Head *ScaledHead
	// Backends are those of this part, by address.
	Backends []ScaledBackend
}

// ScaledID is what the parts of one verdict have in common. It never changes.
type ScaledID struct {
	// Namespace, Service and ServiceUID are those of the Service.
	Namespace, Service, ServiceUID string
	// VPC is the name of its VPC, or the domain of a network outside of every VPC, or "".
	// VPCUID is the UID of that VPC, "" of a network.
	VPC, VPCUID string
	// Exposed reports that every node follows the object.
	Exposed bool
}

// ScaledHead is what nodes need of a Service beside its backends.
type ScaledHead struct {
	// Created is when the Service was.
	Created time.Time
	// Tenant is that of the Service's namespace.
	Tenant string
	// ClusterIPs are those of the Service, LoadBalancerIPs those that it holds in its VPC, by
	// IP, and ExternalIPs those of its spec that it may have (services.ExternalIPs).
	ClusterIPs, LoadBalancerIPs, ExternalIPs []netip.Addr
	// ExternalLoadBalancer reports that ExternalAddress objects may be the Service's.
	ExternalLoadBalancer bool
	// Ports, without their names.
	Ports []ServicePort
	// The following are those of Service.
	HealthCheckNodePort          uint16
	Affinity                     time.Duration
	NodeLocal, ExternalNodeLocal bool
	SourceRanges                 []netip.Prefix
	// Shared reports that every VPC reaches the Service.
	Shared bool
	// InVPC is what nodes need of the VPC of a Service that is Fronted; nil: nothing, or the
	// VPC has no VNI.
	InVPC *ScaledVPC
	// AllJudged is the version by which all Services have been judged, of the API server's
	// Service; otherwise 0.
	AllJudged int
	// UsedRows and UsedBackends are what the Service takes of the quota of its VPC.
	UsedRows, UsedBackends int
}

// ScaledVPC is what a node needs of a VPC whose packets it does not carry.
type ScaledVPC struct {
	VNI      uint32
	Prefixes []netip.Prefix
}

// ScaledBackend is an address to which a Service leads. If it is not Outside, OnHost or
// Listed, a pod of the VPC or network holds it.
type ScaledBackend struct {
	IP netip.Addr
	// Node is that of the Address object, and PodUID the UID of its holder; of an address
	// without one, those that the slice names, or "".
	Node, PodUID string
	// Terminating reports that the backend is shutting down and still serves; of one that is
	// Listed, that it is not ready.
	Terminating bool
	// Outside reports that the egress of the VPC leads there.
	Outside bool
	// OnHost reports that it may be a pod on the network of the node.
	OnHost bool
	// Listed reports that it counts for a shared Service only. It may have no Targets.
	Listed bool
	// ForNodes and ForZones are the nodes and zones whose clients should use it.
	ForNodes, ForZones []string
	// Targets are its ports. Backends may share the list, which must not be changed.
	Targets []ScaledTarget
}

// ScaledTarget is the port at which a backend serves a port of the Service.
type ScaledTarget struct {
	Protocol     string
	Port, Target uint16
}

const withNodePorts = "nodeports"

var scaledEndpoints = memory.Define(memory.Table[ScaledEndpoint]{
	Name: "scaledendpoint",
	Key:  func(e *ScaledEndpoint) []byte { return memory.TextKey(e.Name) },
	Meta: func(e *ScaledEndpoint) *Meta { return &e.Meta },
	Indexes: map[string]func(*ScaledEndpoint) []byte{
		byService: func(e *ScaledEndpoint) []byte { return memory.TextKey(e.Namespace, e.Service) },
		byDomain:  func(e *ScaledEndpoint) []byte { return memory.TextKey(e.VPC) },
		withNodePorts: func(e *ScaledEndpoint) []byte {
			if e.Head == nil || !e.Head.HasNodePorts() {
				return nil
			}
			return memory.TextKey(e.Name)
		},
	},
})

// HasNodePorts reports whether ports of every node are the Service's.
func (h *ScaledHead) HasNodePorts() bool {
	return h.HealthCheckNodePort != 0 || slices.ContainsFunc(h.Ports, func(p ServicePort) bool { return p.NodePort != 0 })
}

// Fronted reports whether clients outside reach the Service.
func (h *ScaledHead) Fronted() bool {
	return len(h.ExternalIPs) > 0 || h.ExternalLoadBalancer || h.HasNodePorts()
}

// GetScaledEndpoint returns a ScaledEndpoint, or nil.
func GetScaledEndpoint(tx ReadTx, name string) *ScaledEndpoint {
	return scaledEndpoints.Get(tx, memory.TextKey(name))
}

// ScaledEndpointsByService returns those of a Service, by name.
func ScaledEndpointsByService(tx ReadTx, namespace, service string) []*ScaledEndpoint {
	return scaledEndpoints.List(tx, byService, memory.TextKey(namespace, service))
}

// ScaledEndpointsByNamespace yields those of the Services of a namespace.
func ScaledEndpointsByNamespace(tx ReadTx, namespace string) iter.Seq[*ScaledEndpoint] {
	return scaledEndpoints.Seq(tx, byService, memory.TextKey(namespace))
}

// ScaledEndpointsByDomain yields those of a VPC by its name, or of a network outside of
// every VPC by its domain.
func ScaledEndpointsByDomain(tx ReadTx, domain string) iter.Seq[*ScaledEndpoint] {
	return scaledEndpoints.Seq(tx, byDomain, memory.TextKey(domain))
}

// ScaledEndpointsWithNodePorts yields those with ports of every node in their head, by name.
func ScaledEndpointsWithNodePorts(tx ReadTx) iter.Seq[*ScaledEndpoint] {
	return scaledEndpoints.Seq(tx, withNodePorts, []byte{})
}

// ScaledEndpoints yields all, by name.
func ScaledEndpoints(tx ReadTx) iter.Seq[*ScaledEndpoint] { return scaledEndpoints.All(tx) }

// PutScaledEndpoint inserts or replaces a ScaledEndpoint.
func PutScaledEndpoint(tx Tx, row *ScaledEndpoint) error {
	_, err := scaledEndpoints.Put(tx, row)
	return err
}

// DeleteScaledEndpoint removes one if it has that UID, and reports whether it did.
func DeleteScaledEndpoint(tx Tx, name, uid string) bool {
	return scaledEndpoints.Remove(tx, memory.TextKey(name), uid) != nil
}
