// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"slices"

	"github.com/alioth-net/alioth/store/descriptor"
	"github.com/alioth-net/alioth/store/kube"
)

// all has every kind: each registers itself where it is defined.
var all []*descriptor.Kind

// All lists every kind that has rows.
func All() []*descriptor.Kind { return slices.Clone(all) }

// OfRow returns the kind of a row, or nil.
func OfRow(row any) *descriptor.Kind {
	for _, kind := range all {
		if kind.Has(row) {
			return kind
		}
	}
	return nil
}

// Trim removes unused fields from a cached object. Of pods and nodes, of which there may
// be many thousands, these are most of the object.
func Trim(object any) (any, error) {
	typed, ok := object.(kube.Object)
	if !ok {
		return object, nil
	}
	typed.SetManagedFields(nil)
	for _, kind := range all {
		kind.Trim(typed)
	}
	return object, nil
}

// define makes a kind and registers it.
func define[O kube.Object, R any](d descriptor.Description[O, R]) descriptor.Of[O, R] {
	kind := descriptor.New(d)
	all = append(all, kind.Kind)
	return kind
}
