// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "full-range-is-freed", Source: "danm-cni/danm#113", Kind: fullTables,
	Input: "The pool of a network has two addresses, and two pods have them. A third pod waits, and one of the first two is deleted.",
	Want:  "The third pod is told that the network is full. It starts with the address as soon as that is free.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("two"))
		network := l.network(t, tenant, "10.120.1.0/24", func(o *danmv1.NetworkOptions) {
			o.AllocationPool = &danmv1.AllocationPool{Start: "10.120.1.10", End: "10.120.1.11"}
		})
		one, two := tenant.Pod("one", scene.OnNode(first), with(tenant, network, dynamic)), tenant.Pod("two", scene.OnNode(second), with(tenant, network, dynamic))
		three := tenant.Pod("three", scene.OnNode(first), with(tenant, network, dynamic))
		l.RunFor(t, one, two)
		l.Make(t, three)
		l.ExpectRefused(t, three, v1alpha1.NetworkExhaustedReason, network.Name)
		freed := l.OnDevice(t, one, "ext1", false)
		if err := l.Delete(patience(t), one); err != nil {
			t.Fatal(err)
		}
		l.ready(t, three)
		if ip := l.OnDevice(t, three, "ext1", false); ip != freed {
			t.Errorf("the third pod has %s, want the address %s", ip, freed)
		}
		l.InPod(t, two, "ping", "-c", "1", "-W", "5", freed.String())
		l.expectOwn(t, 3, two, three)
	},
})
