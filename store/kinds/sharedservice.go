// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// SharedService converts a SharedService. It never fails.
func SharedService(in *v1alpha1.SharedService) (*store.SharedService, error) {
	row := &store.SharedService{
		Meta: rowMeta(in), Name: in.Name, ServiceNamespace: in.Spec.Namespace, ServiceName: in.Spec.Name,
	}
	row.Ready, row.Reason, row.Message = readiness(in.Status.Conditions)
	return row, nil
}
