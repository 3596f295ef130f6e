// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "node-deleted-and-back", Source: "ovn-kubernetes/ovn-kubernetes#2281", Kind: restarts,
	Input:    "The Node object of a node that runs is deleted by mistake. The kubelet starts anew and registers the node again.",
	Want:     "The pods of the node keep their addresses and their connections, and further pods start there.",
	Disturbs: true,
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("mistake"))
		near, far := tenant.Pod("near", scene.OnNode(first)), tenant.Pod("far", scene.OnNode(second))
		l.Run(t, near, far)
		end := l.converse(t, near, scene.Target("tcp", scene.IP(far, false)), scene.Target("tcp", scene.IP(far, true)))
		if err := l.Lab.Client().CoreV1().Nodes().Delete(patience(t), second, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := l.Lab.RestartProcess(patience(t), second+"/kubelet"); err != nil {
			t.Fatal(err)
		}
		if err := l.Lab.WaitNodesReady(patience(t)); err != nil {
			t.Fatal(err)
		}
		if err := l.Lab.WaitDaemonSetReady(patience(t), cluster.SystemNamespace, daemons); err != nil {
			t.Fatal(err)
		}
		later := tenant.Pod("later", scene.OnNode(second))
		l.Run(t, later)
		expectUnbroken(t, end(), name(far))
		l.ready(t, far)
		l.expectOwn(t, 2, near, far, later)
		l.ExpectAnswers(t, later, stage.WantPod(far))
	},
})
