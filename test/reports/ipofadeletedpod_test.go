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
	Name: "ip-of-a-deleted-pod", Source: "cilium/cilium#29571", Kind: addresses,
	Input: "A pod is deleted by force, and a pod of the same name starts on the same node with another IP.",
	Want:  "The new IP is answered, the old one is not.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("again"))
		asker := tenant.Pod("asker", scene.OnNode(first))
		before := tenant.Pod("test-0", scene.OnNode(second), scene.WithNIC(`{"ip": "10.10.1.31"}`))
		after := tenant.Pod("test-0", scene.OnNode(second), scene.WithNIC(`{"ip": "10.10.1.32"}`))
		l.Run(t, asker, before)
		l.ExpectAnswers(t, asker, stage.WantPod(before))
		l.forceDelete(t, before)
		l.Run(t, after)
		l.ExpectAnswers(t, asker, stage.WantPod(after))
		l.expectFreed(t, before)
		old := scene.Targets(scene.Protocols(), netip.MustParseAddr("10.10.1.31"))
		question{from: l.in(asker), targets: old}.await(t, nothing)
	},
})
