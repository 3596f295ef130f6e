// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"net/netip"
	"testing"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "fixed-beside-dynamic", Source: "danm-cni/danm#263", Kind: interfaces,
	Input: "Two pods are created at the same time in an IPv6 network: one wants the first address of the pool, the other any.",
	Want:  "Both run with different addresses, or the pod with the fixed one is told who has it, and starts when that pod is gone.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("mixed"))
		network := l.network(t, tenant, "", func(o *danmv1.NetworkOptions) {
			o.Net6, o.AllocationPoolV6 = "fd10:125:1::/64", &danmv1.AllocationPoolV6{Start: "fd10:125:1::10", End: "fd10:125:1::20"}
		})
		want := netip.MustParseAddr("fd10:125:1::10")
		anyone := tenant.Pod("any", scene.OnNode(second), with(tenant, network, dynamic6))
		fixed := tenant.Pod("fixed", scene.OnNode(first), with(tenant, network, `"ip6":"`+want.String()+`"`))
		l.Make(t, anyone, fixed)
		l.ready(t, anyone)
		if l.OnDevice(t, anyone, "ext1", true) == want {
			l.ExpectRefused(t, fixed, v1alpha1.IPInUseReason, anyone.Name)
			if err := l.Delete(patience(t), anyone); err != nil {
				t.Fatal(err)
			}
		}
		l.ready(t, fixed)
		if ip := l.OnDevice(t, fixed, "ext1", true); ip != want {
			t.Errorf("the pod has %s, want %s", ip, want)
		}
	},
})
