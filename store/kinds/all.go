// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"slices"

	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/core"
	"github.com/alioth-net/alioth/store/kinds/ipamapi"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/kinds/roles"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

// all has the kinds of every area.
var all = slices.Concat(core.All(), vpcs.All(), roles.All(), outside.All(), nmstateapi.All(), ipamapi.All())

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

// Trim removes unused fields from a cached object. There may be many thousands of pods and nodes,
// and most of their size is in unused fields.
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
