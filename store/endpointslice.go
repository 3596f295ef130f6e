// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"slices"
)

// EndpointSlice is the row of an EndpointSlice. Key: (Namespace, Name).
type EndpointSlice struct {
	Meta
	Namespace, Name string
	// Service that the slice belongs to, from its label.
	Service string
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
	// ForNodes and ForZones are the places for whose clients the endpoint is
	// meant; none: it has no hint.
	ForNodes, ForZones []string
}

const byService = "service"

var endpointSlices = define(table[EndpointSlice]{
	name: "endpointslice",
	key:  func(e *EndpointSlice) []byte { return textKey(e.Namespace, e.Name) },
	meta: func(e *EndpointSlice) *Meta { return &e.Meta },
	indexes: map[string]func(*EndpointSlice) []byte{
		byService: func(e *EndpointSlice) []byte { return textKey(e.Namespace, e.Service) },
	},
})

// GetEndpointSlice returns an EndpointSlice, or nil.
func GetEndpointSlice(tx ReadTx, namespace, name string) *EndpointSlice {
	return endpointSlices.get(tx, textKey(namespace, name))
}

// EndpointSlicesByService returns the slices of a Service by name.
func EndpointSlicesByService(tx ReadTx, namespace, service string) []*EndpointSlice {
	return endpointSlices.list(tx, byService, textKey(namespace, service))
}

// ListEndpointSlices returns all slices by namespace and name.
func ListEndpointSlices(tx ReadTx) []*EndpointSlice {
	return slices.Collect(endpointSlices.all(tx))
}

// PutEndpointSlice inserts or replaces a slice.
func PutEndpointSlice(tx Tx, row *EndpointSlice) error {
	_, err := endpointSlices.put(tx, row)
	return err
}

// DeleteEndpointSlice removes a slice if it has that UID, and reports whether
// it did.
func DeleteEndpointSlice(tx Tx, namespace, name, uid string) bool {
	return endpointSlices.remove(tx, textKey(namespace, name), uid) != nil
}
