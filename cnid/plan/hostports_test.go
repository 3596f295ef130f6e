// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netfilter"
)

func TestPortsOfTheNodeLeadToTheShadowsOfTheirPods(t *testing.T) {
	w := newWorld(t, node("node1", "192.0.2.1"), vpc("blue", 20, "10.10.0.0/16", "fd10:10::/48"), vpc("red", 30, "10.10.0.0/16"))
	w.attach("blue", 20, "b1", "10.10.1.10/24", "fd10:10:0:1::10/64")
	w.attach("red", 30, "r1", "10.10.1.10/24")
	w.attach("red", 30, "r2", "10.10.1.11/24")
	w.records[0].HostPorts = []journal.HostPort{
		{Protocol: "TCP", HostPort: 80, Port: 8080}, {Protocol: "SCTP", HostIP: ip("2001:db8::1"), HostPort: 81, Port: 8081},
	}
	w.records[1].HostPorts = []journal.HostPort{{Protocol: "UDP", HostIP: ip("192.0.2.1"), HostPort: 80, Port: 53}}
	// Asks for what an older pod has.
	w.records[2].HostPorts = []journal.HostPort{{Protocol: "TCP", HostIP: ip("192.0.2.1"), HostPort: 80, Port: 9}}
	got := w.build()
	want := []netfilter.HostPort{
		{Protocol: 6, HostPort: 80, Port: 8080, Shadow: ip("169.254.64.2")},
		{Protocol: 6, HostPort: 80, Port: 8080, Shadow: w.records[0].Shadow6},
		{Protocol: 132, HostIP: ip("2001:db8::1"), HostPort: 81, Port: 8081, Shadow: w.records[0].Shadow6},
		{Protocol: 17, HostIP: ip("192.0.2.1"), HostPort: 80, Port: 53, Shadow: ip("169.254.64.3")},
	}
	if diff := cmp.Diff(want, got.Filter.HostPorts, byValue); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, loopback := range []bool{true, false, false} {
		if got.Devices.Pods[i].Loopback != loopback {
			t.Errorf("pod %d answers loopback addresses: %v, want %v", i, !loopback, loopback)
		}
	}
	w.records = w.records[1:]
	if left := w.build().Filter.HostPorts; len(left) != 2 {
		t.Errorf("once the first pod is gone: %v, want the ports of both others", left)
	}
}
