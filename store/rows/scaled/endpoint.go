// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scaled has the rows of ScaledEndpoints: the operator's verdicts about Services
// (docs/design/140).
package scaled

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// Endpoint is the row of a ScaledEndpoint object: a part of the operator's verdict about a
// Service. Key: Name.
type Endpoint struct {
	store.Meta
	Name string
	ID
	// Part is 0 for the part that has the head, up to 63.
	Part int
	// Head is nil in all other parts.
	Head *Head
	// Backends are the backends of this part, by address.
	Backends []Backend
}

// ID has the common fields of the parts of one verdict. It never changes.
type ID struct {
	// Namespace, Service and ServiceUID identify the Service.
	Namespace, Service, ServiceUID string
	// VPC is the name of its VPC, or the domain of a network outside of every VPC, or "".
	// VPCUID is the UID of that VPC, "" of a network.
	VPC, VPCUID string
	// Exposed reports that every node follows the object.
	Exposed bool
}

// Head has the fields of a Service that nodes need, beside its backends.
type Head struct {
	// Created is the time of the Service's creation.
	Created time.Time
	// Tenant is the tenant of the Service's namespace.
	Tenant string
	// ClusterIPs are the ClusterIPs of the Service. LoadBalancerIPs are the addresses that the
	// Service holds in its VPC, by IP. ExternalIPs are the addresses of its spec that the Service
	// may have (services.ExternalIPs).
	ClusterIPs, LoadBalancerIPs, ExternalIPs []netip.Addr
	// ExternalLoadBalancer reports that ExternalAddress objects may be the Service's.
	ExternalLoadBalancer bool
	// Ports, without their names.
	Ports []store.ServicePort
	// The following are the fields of Service.
	HealthCheckNodePort          uint16
	Affinity                     time.Duration
	NodeLocal, ExternalNodeLocal bool
	SourceRanges                 []netip.Prefix
	// Shared reports that every VPC reaches the Service.
	Shared bool
	// LeftOut reports that some endpoints for connections are not backends: another proxy may
	// serve them. It is only set for a Service of the default VPC that is not Shared.
	LeftOut bool
	// InVPC has the fields that nodes need of the VPC of a Service that is Fronted; nil: nothing,
	// or the VPC has no VNI.
	InVPC *VPC
	// AllJudged is set in the rows of the API server's Service, otherwise 0. It is the version of
	// the judgement of all Services.
	AllJudged int
	// UsedRows and UsedBackends are the Service's shares of the quota of its VPC.
	UsedRows, UsedBackends int
}

// VPC has the fields that a node needs of a VPC whose packets it does not carry.
type VPC struct {
	VNI      uint32
	Prefixes []netip.Prefix
}

// Backend is an address of a Service's backend. If it is not Outside, OnHost or Listed, a pod of
// the VPC or network holds it.
type Backend struct {
	IP netip.Addr
	// Node is the node of the Address object, and PodUID the UID of its holder. For an address
	// without an Address object, both come from the slice, or are "".
	Node, PodUID string
	// Terminating reports that the backend is shutting down and still serves. For a Listed
	// backend, it reports that the backend is not ready.
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
	Targets []Target
}

// Target is the port at which a backend serves a port of the Service.
type Target struct {
	Protocol     string
	Port, Target uint16
}

const (
	byService  = "service"
	byDomain   = "domain"
	byNodePort = "nodeport"
)

var endpoints = memory.Define(memory.Table[Endpoint]{
	Name: "scaledendpoint",
	Key:  func(e *Endpoint) []byte { return memory.TextKey(e.Name) },
	Meta: func(e *Endpoint) *store.Meta { return &e.Meta },
	Indexes: map[string]func(*Endpoint) []byte{
		byService: func(e *Endpoint) []byte { return memory.TextKey(e.Namespace, e.Service) },
		byDomain:  func(e *Endpoint) []byte { return memory.TextKey(e.VPC) },
	},
	Multiple: map[string]func(*Endpoint) [][]byte{
		byNodePort: func(e *Endpoint) [][]byte {
			if e.Head == nil {
				return nil
			}
			return store.NodePortKeys(e.Head.Ports, e.Head.HealthCheckNodePort)
		},
	},
})

// HasNodePorts reports whether ports of every node are the Service's.
func (h *Head) HasNodePorts() bool {
	return h.HealthCheckNodePort != 0 ||
		slices.ContainsFunc(h.Ports, func(p store.ServicePort) bool { return p.NodePort != 0 })
}

// Fronted reports whether clients outside reach the Service.
func (h *Head) Fronted() bool {
	return len(h.ExternalIPs) > 0 || h.ExternalLoadBalancer || h.HasNodePorts()
}

// Get returns a ScaledEndpoint, or nil.
func Get(tx store.ReadTx, name string) *Endpoint {
	return endpoints.Get(tx, memory.TextKey(name))
}

// ByService returns the endpoints of a Service, by name.
func ByService(tx store.ReadTx, namespace, service string) []*Endpoint {
	return endpoints.List(tx, byService, memory.TextKey(namespace, service))
}

// ByNamespace yields the endpoints of the Services of a namespace.
func ByNamespace(tx store.ReadTx, namespace string) iter.Seq[*Endpoint] {
	return endpoints.Seq(tx, byService, memory.TextKey(namespace))
}

// ByDomain yields the endpoints of a VPC by its name, or of a network outside of every VPC by its
// domain.
func ByDomain(tx store.ReadTx, domain string) iter.Seq[*Endpoint] {
	return endpoints.Seq(tx, byDomain, memory.TextKey(domain))
}

// ByNodePort yields those whose head has a port of all nodes, by name.
func ByNodePort(tx store.ReadTx, protocol string, port uint16) iter.Seq[*Endpoint] {
	return endpoints.Seq(tx, byNodePort, store.NodePortKey(protocol, port))
}

// All yields all, by name.
func All(tx store.ReadTx) iter.Seq[*Endpoint] { return endpoints.All(tx) }

// Put inserts or replaces a ScaledEndpoint.
func Put(tx store.Tx, row *Endpoint) error {
	_, err := endpoints.Put(tx, row)
	return err
}

// Delete removes one if it has that UID, and reports whether it did.
func Delete(tx store.Tx, name, uid string) bool {
	return endpoints.Remove(tx, memory.TextKey(name), uid) != nil
}
