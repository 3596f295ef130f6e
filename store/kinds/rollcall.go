// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// RollCall converts a RollCall. It never fails.
func RollCall(in *v1alpha1.RollCall) (*store.RollCall, error) {
	row := &store.RollCall{Meta: rowMeta(in), Name: in.Name, Call: in.Spec.Call}
	for _, vni := range in.Spec.VNIs {
		row.VNIs = append(row.VNIs, uint32(vni))
	}
	for _, owner := range in.OwnerReferences {
		if owner.APIVersion == "v1" && owner.Kind == "Node" {
			row.NodeUID = string(owner.UID)
		}
	}
	return row, nil
}
