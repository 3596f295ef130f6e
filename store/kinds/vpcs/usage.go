// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"fmt"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
)

// Usage is the kind of the figures of a Subnet or VPC. No node follows it.
var Usage = descriptor.Define(&all, descriptor.Description[*v1alpha1.Usage, store.Usage]{
	Name: "Usage", Object: &v1alpha1.Usage{}, List: &v1alpha1.UsageList{}, Convert: convertUsage,
	Table: descriptor.ByName(store.GetUsage, store.PutUsage, store.DeleteUsage),
})

// convertUsage converts a Usage.
func convertUsage(in *v1alpha1.Usage) (*store.Usage, error) {
	if err := values.Known("spec.kind", in.Spec.Kind, v1alpha1.UsageOfSubnet, v1alpha1.UsageOfVPC); err != nil {
		return nil, fmt.Errorf("convert Usage %s: %w", in.Name, err)
	}
	row := &store.Usage{
		Meta: values.Meta(in), Name: in.Name, Kind: string(in.Spec.Kind), Of: in.Spec.Name,
		// A cursor is a hint. An unreadable cursor counts as a missing one.
		Cursors: values.HostAddrs(in.Status.Cursors),
	}
	for _, owner := range in.OwnerReferences {
		if owner.Kind == row.Kind && owner.Name == row.Of {
			row.OwnerUID = string(owner.UID)
		}
	}
	return row, nil
}
