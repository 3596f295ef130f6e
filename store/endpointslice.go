// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store/memory"
)

// EndpointSlice is the row of an EndpointSlice. Key: (Namespace, Name).
type EndpointSlice struct {
	Meta
	Namespace, Name string
	// Service that the slice belongs to, from its label.
	Service string
	// Managed reports that the operator has made the slice, by its label.
	Managed bool
	// Domain is the domain of the addresses, from a label of the slice: the name of a VPC, or
	// NetworkRef.Domain. It is "" for a slice without the label.
	Domain string
	// Ports by name; a port's number is 0 when the slice leaves it out.
	Ports     []ServicePort
	Endpoints []Endpoint
}

// Endpoint is one backend of an EndpointSlice.
type Endpoint struct {
	Addresses []netip.Addr
	// Ready is true for a backend that may get new connections.
	Ready bool
	// Terminating is true for a backend that is shutting down but serving.
	Terminating bool
	Node        string
	// PodUID is the UID of the target pod, or "".
	PodUID string
	// Named reports that the endpoint is for the target pod alone: it ends when another pod
	// gets the address. Slices with a Domain have such endpoints.
	Named bool
	// ForNodes and ForZones are the nodes and zones whose clients should use the
	// endpoint; none: it has no hint.
	ForNodes, ForZones []string
}

const (
	byService = "service"
	byDomain  = "domain"
)

var endpointSlices = memory.Define(memory.Table[EndpointSlice]{
	Name: "endpointslice",
	Key:  func(e *EndpointSlice) []byte { return memory.TextKey(e.Namespace, e.Name) },
	Meta: func(e *EndpointSlice) *Meta { return &e.Meta },
	Indexes: map[string]func(*EndpointSlice) []byte{
		byService: func(e *EndpointSlice) []byte { return memory.TextKey(e.Namespace, e.Service) },
		byDomain: func(e *EndpointSlice) []byte {
			if e.Domain == "" {
				return nil
			}
			return memory.TextKey(e.Domain)
		},
	},
})

// GetEndpointSlice returns an EndpointSlice, or nil.
func GetEndpointSlice(tx ReadTx, namespace, name string) *EndpointSlice {
	return endpointSlices.Get(tx, memory.TextKey(namespace, name))
}

// EndpointSlicesByService returns the slices of a Service by name.
func EndpointSlicesByService(tx ReadTx, namespace, service string) []*EndpointSlice {
	return endpointSlices.List(tx, byService, memory.TextKey(namespace, service))
}

// EndpointSlicesByDomain returns the slices whose label names a domain, by namespace and
// name.
func EndpointSlicesByDomain(tx ReadTx, domain string) []*EndpointSlice {
	return endpointSlices.List(tx, byDomain, memory.TextKey(domain))
}

// PutEndpointSlice inserts or replaces a slice.
func PutEndpointSlice(tx Tx, row *EndpointSlice) error {
	_, err := endpointSlices.Put(tx, row)
	return err
}

// DeleteEndpointSlice removes a slice if it has that UID, and reports whether
// it did.
func DeleteEndpointSlice(tx Tx, namespace, name, uid string) bool {
	return endpointSlices.Remove(tx, memory.TextKey(namespace, name), uid) != nil
}

// ManagedEndpointSlices returns the slices that the operator has made, by namespace and
// name.
func ManagedEndpointSlices(tx ReadTx) []*EndpointSlice {
	return slices.DeleteFunc(slices.Collect(endpointSlices.All(tx)), func(row *EndpointSlice) bool { return !row.Managed })
}
