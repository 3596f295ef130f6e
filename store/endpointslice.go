// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

const byService = "service"

var endpointSlices = &table[EndpointSlice]{
	name: "endpointslice",
	key:  func(e *EndpointSlice) []byte { return textKey(e.Namespace, e.Name) },
	meta: func(e *EndpointSlice) *Meta { return &e.Meta },
	indexes: map[string]func(*EndpointSlice) []byte{
		byService: func(e *EndpointSlice) []byte { return textKey(e.Namespace, e.Service) },
	},
}

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
