// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
)

// Network is the kind of a VPC as a tenant sees it.
var Network = descriptor.Define(&all, descriptor.Description[*arktosv1.Network, store.Network]{
	Name: "Network", Object: &arktosv1.Network{}, List: &arktosv1.NetworkList{}, Convert: convertNetwork,
	Table: descriptor.InNamespace(store.GetNetwork, store.PutNetwork, store.DeleteNetwork),
	Verdict: func(row *store.Network) descriptor.Verdict {
		return descriptor.Verdict{
			ID: descriptor.ID{
				Namespace: row.Namespace,
				Name:      row.Name,
				UID:       row.UID,
			}, Ready: row.Ready, Reason: row.Reason, Message: row.Message, NameConflict: row.NameConflict,
			NotIsolated: row.NotIsolated,
		}
	},
	Rows:   descriptor.Listed(store.ListNetworks),
	OnNode: descriptor.Everything,
})

// convertNetwork converts a Network. The tenant is left to the row of its namespace.
// It never fails.
func convertNetwork(in *arktosv1.Network) (*store.Network, error) {
	row := &store.Network{
		Meta:      values.Meta(in),
		Namespace: in.Namespace,
		Name:      in.Name,
		Type:      in.Spec.Type,
		VPC:       in.Spec.VPCID,
	}
	row.Ready, row.Reason, row.Message = values.Readiness(in.Status.Conditions)
	if conflict := meta.FindStatusCondition(in.Status.Conditions, v1alpha1.NameConflictCondition); conflict != nil {
		row.NameConflict = quote.Message(conflict.Message)
	}
	if isolated := meta.FindStatusCondition(in.Status.Conditions, v1alpha1.IsolatedCondition); isolated != nil &&
		isolated.Status == metav1.ConditionFalse {
		row.NotIsolated = quote.Message(isolated.Message)
	}
	return row, nil
}
