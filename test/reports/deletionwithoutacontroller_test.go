// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "deletion-without-a-controller", Source: "kubeovn/kube-ovn#4304", Kind: restarts,
	Input:  "While no operator runs, a pod with a fixed IP is deleted, and another pod is created that wants this IP.",
	Want:   "The other pod runs with the IP once an operator leads, and no address has two holders.",
	Outage: noOperators,
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("unseen"))
		fixed := scene.WithNIC(`{"ip": "10.10.1.60,fd10:10:0:1::60"}`)
		holder, beside := tenant.Pod("holder", scene.OnNode(first), fixed), tenant.Pod("beside", scene.OnNode(first))
		successor := tenant.Pod("successor", scene.OnNode(second), fixed)
		l.Run(t, holder, beside)
		noOperators.during(t, func() {
			if err := l.Delete(patience(t), holder); err != nil {
				t.Fatal(err)
			}
			l.create(t, successor)
		})
		l.ready(t, successor)
		l.expectFreed(t, holder)
		l.expectOwn(t, 2, successor, beside)
		if ip := scene.IP(successor, true); ip != netip.MustParseAddr("fd10:10:0:1::60") {
			t.Errorf("the successor has %s", ip)
		}
		l.ExpectAnswers(t, beside, stage.WantPod(successor))
	},
})
