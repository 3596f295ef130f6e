// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// SharedService is the kind of a Service that every VPC reaches.
var SharedService = define(description[*v1alpha1.SharedService, store.SharedService]{
	name: "SharedService", object: &v1alpha1.SharedService{}, list: &v1alpha1.SharedServiceList{}, convert: convertSharedService,
	table: byName(store.GetSharedService, store.PutSharedService, store.DeleteSharedService),
	verdict: func(row *store.SharedService) Verdict {
		return Verdict{ID: ID{Name: row.Name, UID: row.UID}, Ready: row.Ready, Reason: row.Reason, Message: row.Message}
	},
	rows:   listed(store.ListSharedServices),
	onNode: everything,
})

// convertSharedService converts a SharedService. It never fails.
func convertSharedService(in *v1alpha1.SharedService) (*store.SharedService, error) {
	row := &store.SharedService{
		Meta: rowMeta(in), Name: in.Name, ServiceNamespace: in.Spec.Namespace, ServiceName: in.Spec.Name,
	}
	row.Ready, row.Reason, row.Message = readiness(in.Status.Conditions)
	return row, nil
}
