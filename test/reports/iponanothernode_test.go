// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "ip-on-another-node", Source: "containernetworking/plugins#858", Kind: addresses,
	Input: "Pods on both nodes talk to a pod all the time. It is deleted, and its IP is given to a pod on the other node, and then to one on the first node again.",
	Want:  "Those who ask reach the new holder at once, by every protocol, without an entry of the old one.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("reuse"))
		near, far := tenant.Pod("near", scene.OnNode(first)), tenant.Pod("far", scene.OnNode(second))
		fixed := scene.WithNIC(`{"ip": "10.10.1.40,fd10:10:0:1::40"}`)
		holder := tenant.Pod("holder-0", scene.OnNode(first), fixed)
		l.Run(t, near, far, holder)
		for _, from := range []*corev1.Pod{near, far} {
			// The kernel keeps the neighbour in use.
			end := l.converse(t, from, scene.Target("udp", scene.IP(holder, false)), scene.Target("udp", scene.IP(holder, true)))
			defer end()
		}
		for i, node := range []string{second, first} {
			if err := l.Delete(patience(t), holder); err != nil {
				t.Fatal(err)
			}
			holder = tenant.Pod([]string{"holder-1", "holder-2"}[i], scene.OnNode(node), fixed)
			l.Run(t, holder)
			for _, from := range []*corev1.Pod{near, far} {
				l.ExpectAnswers(t, from, stage.WantPod(holder))
			}
		}
	},
})
