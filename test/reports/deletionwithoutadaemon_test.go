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
	Name: "deletion-without-a-daemon", Source: "danm-cni/danm#167", Kind: restarts,
	Input:  "A pod with a fixed IP is deleted by force while no daemon runs, and another pod wants that IP on the other node.",
	Want:   "Once the daemons are back, the first pod holds nothing, and the other pod runs with the IP.",
	Outage: noDaemons,
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("missed"))
		fixed := scene.WithNIC(`{"ip": "10.10.1.50"}`)
		holder, successor := tenant.Pod("db-0", scene.OnNode(second), fixed), tenant.Pod("db-0", scene.OnNode(first), fixed)
		l.Run(t, holder)
		noDaemons.during(t, func() {
			l.forceDelete(t, holder)
			l.create(t, successor)
		})
		l.ready(t, successor)
		l.expectFreed(t, holder)
		l.expectOwn(t, 2, successor)
		if ip := scene.IP(successor, false); ip != netip.MustParseAddr("10.10.1.50") {
			t.Errorf("the successor has %s", ip)
		}
	},
})
