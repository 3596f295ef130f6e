// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
)

// RollCall is the kind of the operator's question to the nodes, and of each node's reply.
var RollCall = descriptor.Define(&all, descriptor.Description[*v1alpha1.RollCall, store.RollCall]{
	Name: "RollCall", Object: &v1alpha1.RollCall{}, List: &v1alpha1.RollCallList{}, Convert: convertRollCall,
	Table:  descriptor.ByName(store.GetRollCall, store.PutRollCall, store.DeleteRollCall),
	OnNode: ofOperator,
})

// ofOperator selects the operator's question. Nothing on a node waits for it.
func ofOperator(string) descriptor.Scope {
	scope := descriptor.WithField("metadata.name")(v1alpha1.OperatorRollCall)
	scope.Unawaited = true
	return scope
}

// convertRollCall converts a RollCall. It never fails.
func convertRollCall(in *v1alpha1.RollCall) (*store.RollCall, error) {
	row := &store.RollCall{Meta: values.Meta(in), Name: in.Name, Call: in.Spec.Call}
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
