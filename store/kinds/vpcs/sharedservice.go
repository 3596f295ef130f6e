// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
)

// SharedService is the kind of a Service that every VPC reaches.
var SharedService = descriptor.Define(&all, descriptor.Description[*v1alpha1.SharedService, store.SharedService]{
	Name: "SharedService", Object: &v1alpha1.SharedService{}, List: &v1alpha1.SharedServiceList{}, Convert: convertSharedService,
	Table: descriptor.ByName(store.GetSharedService, store.PutSharedService, store.DeleteSharedService),
	Verdict: func(row *store.SharedService) descriptor.Verdict {
		return descriptor.Verdict{
			ID:      descriptor.ID{Name: row.Name, UID: row.UID},
			Ready:   row.Ready,
			Reason:  row.Reason,
			Message: row.Message,
		}
	},
	Rows:   descriptor.Listed(store.ListSharedServices),
	OnNode: descriptor.Everything,
})

// convertSharedService converts a SharedService. It never fails.
func convertSharedService(in *v1alpha1.SharedService) (*store.SharedService, error) {
	row := &store.SharedService{
		Meta: values.Meta(in), Name: in.Name, ServiceNamespace: in.Spec.Namespace, ServiceName: in.Spec.Name,
	}
	row.Ready, row.Reason, row.Message = values.Readiness(in.Status.Conditions)
	return row, nil
}
