// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func usage() *v1alpha1.Usage {
	return &v1alpha1.Usage{
		ObjectMeta: named("subnet.net1"), Spec: v1alpha1.UsageSpec{Kind: v1alpha1.UsageOfSubnet, Name: "net1"},
		Status: v1alpha1.UsageStatus{Used: 1, Cursors: []string{"10.10.1.5", "fd10::5"}},
	}
}

func TestUsage_WrongValue_Refused(t *testing.T) {
	checkCreations(t, usage, []creation[*v1alpha1.Usage]{
		{"as it is", nil, ""},
		{"of another kind", func(u *v1alpha1.Usage) { u.Spec.Kind = "Network" }, "Unsupported value"},
		{"of no object", func(u *v1alpha1.Usage) { u.Spec.Name = "" }, "spec.name"},
		{"with three cursors", func(u *v1alpha1.Usage) { u.Status.Cursors = append(u.Status.Cursors, "10.10.1.6") }, "must have at most 2 items"},
	})
	checkUpdates(t, usage, []update[*v1alpha1.Usage]{
		{name: "other figures", mutate: func(u *v1alpha1.Usage) { u.Status.Used = 2 }, want: ""},
		{name: "another object, which the operator corrects", mutate: func(u *v1alpha1.Usage) { u.Spec.Name = "net2" }, want: ""},
	})
}
