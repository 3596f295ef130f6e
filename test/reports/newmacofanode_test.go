// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "new-mac-of-a-node", Source: "flannel-io/flannel#1036", Kind: restarts,
	Input:    "The device of a node gets another MAC, as with a new adapter, while pods talk across nodes.",
	Want:     "The connections go on, and pods reach each other in both directions.",
	Disturbs: true,
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("adapter"))
		near, far := tenant.Pod("near", scene.OnNode(first)), tenant.Pod("far", scene.OnNode(second))
		l.Run(t, near, far)
		const device = "/sys/class/net/eth0/address"
		before := l.OnNode(t, second, "cat", device)
		setMAC := func(mac string) { l.OnNode(t, second, "ip", "link", "set", "eth0", "address", mac) }
		t.Cleanup(func() { setMAC(before[:17]) })
		end := l.converse(t, near, scene.Target("tcp", scene.IP(far, false)), scene.Target("tcp", scene.IP(far, true)))
		setMAC("02:00:5e:10:00:01")
		l.ExpectAnswers(t, near, stage.WantPod(far))
		l.ExpectAnswers(t, far, stage.WantPod(near))
		expectUnbroken(t, end(), name(far))
	},
})
