// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netfilter"
	"github.com/alioth-net/alioth/store"
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

func TestANodePortThatAPodHereHasAsItsHostPortIsTaken(t *testing.T) {
	port := func(number uint16) []store.ServicePort {
		return []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: number}}
	}
	for name, c := range map[string]struct {
		port journal.HostPort
		vip  string
		want bool
	}{
		"at every address":         {journal.HostPort{Protocol: "TCP", HostPort: 30080, Port: 8080}, "10.96.1.1", true},
		"at one of them":           {journal.HostPort{Protocol: "TCP", HostIP: ip("192.0.2.1"), HostPort: 30080, Port: 8080}, "10.96.1.1", true},
		"another one":              {journal.HostPort{Protocol: "TCP", HostPort: 30081, Port: 8080}, "10.96.1.1", false},
		"of another protocol":      {journal.HostPort{Protocol: "UDP", HostPort: 30080, Port: 8080}, "10.96.1.1", false},
		"where node ports are not": {journal.HostPort{Protocol: "TCP", HostIP: ip("127.0.0.1"), HostPort: 30080, Port: 8080}, "10.96.1.1", false},
		"of another family":        {journal.HostPort{Protocol: "TCP", HostPort: 30080, Port: 8080}, "fd96::1", false},
		"tied to the other family": {journal.HostPort{Protocol: "TCP", HostIP: ip("2001:db8::1"), HostPort: 30080, Port: 8080}, "10.96.1.1", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, node("node1", "192.0.2.1"), vpc("blue", 20, "10.10.0.0/16"), namespace("blue", "blue"), network("blue", "default", "blue"), allow("blue", "blue"))
			w.attach("blue", 20, "b1", "10.10.1.10/24")
			w.records[0].HostPorts = []journal.HostPort{c.port}
			w.put(t, service("blue", "web", []string{c.vip}, port(30080)...), service("blue", "other", []string{"10.96.1.9"}, port(30090)...))
			got := w.build(serveNodePorts).Taken
			if !c.want {
				if len(got) > 0 {
					t.Errorf("taken: %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Service != (ServiceRef{"blue", "web"}) || got[0].UID != "web" ||
				!strings.Contains(got[0].Reason, "on node node1 port "+c.port.String()+" leads to pod "+w.records[0].Pod.String()) {
				t.Errorf("got %+v", got)
			}
			if somebodyElse := w.build().Taken; len(somebodyElse) > 0 {
				t.Errorf("taken, though somebody else serves node ports: %+v", somebodyElse)
			}
		})
	}
}
