// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "late-del-of-an-earlier-pod", Source: "k8snetworkplumbingwg/whereabouts#75", Kind: restarts,
	Input: "A node is back after a crash, and detaches a container of a pod whose name, and IP, another pod has by now.",
	Want:  "The other pod keeps its interface and its addresses.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("late"))
		fixed := scene.WithNIC(`{"ip": "10.10.1.90"}`)
		earlier, asker := tenant.Pod("db-0", scene.OnNode(second), fixed), tenant.Pod("asker", scene.OnNode(first))
		l.Run(t, earlier, asker)
		container := l.sandbox(t, second, earlier)
		if err := l.Delete(patience(t), earlier); err != nil {
			t.Fatal(err)
		}
		later := tenant.Pod("db-0", scene.OnNode(second), fixed)
		l.Run(t, later)
		l.del(t, second, container, "", earlier)
		l.del(t, second, stage.Unique("other"), "", later)
		l.del(t, first, container, "", later)
		l.expectOwn(t, 2, later)
		l.ExpectAnswers(t, asker, stage.WantPod(later))
	},
})
