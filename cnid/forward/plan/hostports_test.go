// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

func TestHostPorts_Plan_LeadToPodShadows(t *testing.T) {
	w := newWorld(t, node("node1", "192.0.2.1"), vpc("default", 20, "10.10.0.0/16", "fd10:10::/48"), vpc("red", 30, "10.10.0.0/16"), namespace("ns", "ns:ns"))
	w.attach("default", 20, "b1", "10.10.1.10/24", "fd10:10:0:1::10/64")
	w.attach("red", 30, "r1", "10.10.1.10/24")
	w.attach("red", 30, "r2", "10.10.1.11/24")
	w.records[0].HostPorts = []journal.HostPort{
		{Protocol: "TCP", HostPort: 80, Port: 8080}, {Protocol: "SCTP", HostIP: ip("2001:db8::1"), HostPort: 81, Port: 8081},
	}
	w.records[1].HostPorts = []journal.HostPort{{Protocol: "UDP", HostIP: ip("192.0.2.1"), HostPort: 80, Port: 53}}
	// Asks for what an older pod has.
	w.records[2].HostPorts = []journal.HostPort{{Protocol: "TCP", HostIP: ip("192.0.2.1"), HostPort: 80, Port: 9}}
	got := w.build()
	want := []ruleset.HostPort{
		{Protocol: 6, HostPort: 80, Port: 8080, Shadow: ip("169.254.64.2"), Own: true},
		{Protocol: 6, HostPort: 80, Port: 8080, Shadow: w.records[0].Shadow6, Own: true},
		{Protocol: 132, HostIP: ip("2001:db8::1"), HostPort: 81, Port: 8081, Shadow: w.records[0].Shadow6, Own: true},
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

// asks gives a record of the world ports that it asks for.
func (w *world) asks(record int, ports ...journal.HostPort) { w.records[record].HostPorts = ports }

func TestHostPorts_ServicePort_LeadsToNoPod(t *testing.T) {
	port := func(number uint16) []store.ServicePort {
		return []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: number}}
	}
	checked := func(tx store.Tx) error {
		row := store.Service{Meta: store.Meta{UID: "checked"}, Namespace: "red", Name: "checked", ClusterIPs: ips("10.96.1.7"), HealthCheckNodePort: 30090}
		return store.PutService(tx, &row)
	}
	for name, c := range map[string]struct {
		port journal.HostPort
		want string
	}{
		"at every address":          {journal.HostPort{Protocol: "TCP", HostPort: 30080, Port: 8080}, "Service ns/web"},
		"at one of them":            {journal.HostPort{Protocol: "TCP", HostIP: ip("192.0.2.1"), HostPort: 30080, Port: 8080}, "Service ns/web"},
		"at loopback":               {journal.HostPort{Protocol: "TCP", HostIP: ip("127.0.0.1"), HostPort: 30080, Port: 8080}, "Service ns/web"},
		"in the family it has not":  {journal.HostPort{Protocol: "TCP", HostIP: ip("2001:db8::1"), HostPort: 30080, Port: 8080}, "Service ns/web"},
		"of another tenant":         {journal.HostPort{Protocol: "TCP", HostPort: 30081, Port: 8080}, "another tenant's Service"},
		"for health checks":         {journal.HostPort{Protocol: "TCP", HostPort: 30090, Port: 8080}, "another tenant's Service"},
		"another one":               {journal.HostPort{Protocol: "TCP", HostPort: 30082, Port: 8080}, ""},
		"of another protocol":       {journal.HostPort{Protocol: "UDP", HostPort: 30080, Port: 8080}, ""},
		"health checks are not UDP": {journal.HostPort{Protocol: "UDP", HostPort: 30090, Port: 8080}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, node("node1", "192.0.2.1"), vpc("default", 1, "10.244.0.0/16"), namespace("ns", "ns:ns"), namespace("red", "red"))
			w.attach("default", 1, "b1", "10.244.1.10/24")
			w.asks(0, c.port)
			if before := w.build(); len(before.Closed) > 0 {
				t.Errorf("closed before there is a Service: %+v", before.Closed)
			}
			w.put(t, service("ns", "web", []string{"10.96.1.1"}, port(30080)...), service("red", "web", []string{"10.96.1.2"}, port(30081)...), checked)
			// With and without node ports of the node, and with and without a VPC of the Service.
			for _, change := range [][]func(*Config){nil, {serveNodePorts}} {
				got := w.build(change...)
				if closed := len(got.Closed) == 1 && len(got.Filter.HostPorts) == 0; closed != (c.want != "") {
					t.Errorf("ports %+v, closed %+v", got.Filter.HostPorts, got.Closed)
				}
				if c.want == "" {
					continue
				}
				refusal := got.Closed[0].Refusal
				if got.Closed[0].Pod != w.records[0].Pod || refusal.Reason != v1alpha1.HostPortConflictReason ||
					!strings.Contains(refusal.Message, c.want) {
					t.Errorf("closed: %+v", got.Closed)
				}
			}
		})
	}
}

func TestHostPorts_Tenants_OnlyGrantedPorts(t *testing.T) {
	grant := func(deleting bool, tenants ...string) func(store.Tx) error {
		return func(tx store.Tx) error {
			return external.PutHostAccess(tx, &external.HostAccess{
				Meta: store.Meta{UID: "grant", Deleting: deleting}, Name: "grant", AllowedTenants: tenants,
				Ports: []external.HostPortRange{{Protocol: "TCP", First: 80, Last: 81}},
			})
		}
	}
	port := journal.HostPort{Protocol: "TCP", HostPort: 80, Port: 8080}
	for name, c := range map[string]struct {
		vpc, tenant string
		port        journal.HostPort
		grant       func(store.Tx) error
		// open reports that the port leads to the pod, own that what the node sends to
		// itself does, too.
		open, own bool
	}{
		"without a grant":                   {vpc: "blue", tenant: "blue", port: port},
		"with one":                          {vpc: "blue", tenant: "blue", port: port, grant: grant(false, "blue"), open: true},
		"with one for everybody":            {vpc: "blue", tenant: "blue", port: port, grant: grant(false, "*"), open: true},
		"with one that ends":                {vpc: "blue", tenant: "blue", port: port, grant: grant(true, "blue")},
		"with another tenant's":             {vpc: "blue", tenant: "blue", port: port, grant: grant(false, "red")},
		"beside it":                         {vpc: "blue", tenant: "blue", port: journal.HostPort{Protocol: "TCP", HostPort: 82, Port: 80}, grant: grant(false, "blue")},
		"of another protocol":               {vpc: "blue", tenant: "blue", port: journal.HostPort{Protocol: "UDP", HostPort: 80, Port: 80}, grant: grant(false, "blue")},
		"at loopback alone":                 {vpc: "blue", tenant: "blue", port: journal.HostPort{Protocol: "TCP", HostIP: ip("127.0.0.1"), HostPort: 80, Port: 80}, grant: grant(false, "blue")},
		"a tenant's pod in the default VPC": {vpc: "default", tenant: "blue", port: port, grant: grant(false, "blue"), open: true},
		"a namespace without a label":       {vpc: "default", tenant: "ns:ns", port: port, open: true, own: true},
		"such a namespace with its own VPC": {vpc: "blue", tenant: "ns:ns", port: port, open: true},
		"such a namespace, at loopback alone": {
			vpc: "default", tenant: "ns:ns", port: journal.HostPort{Protocol: "TCP", HostIP: ip("127.0.0.1"), HostPort: 80, Port: 80}, open: true, own: true,
		},
		"a namespace that is not there": {vpc: "default", port: port, grant: grant(false, "*")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, node("node1", "192.0.2.1"), vpc("blue", 20, "10.10.0.0/16"), vpc("default", 1, "10.10.0.0/16"))
			w.attach(c.vpc, map[string]uint32{"blue": 20, "default": 1}[c.vpc], "p", "10.10.1.10/24")
			w.asks(0, c.port)
			if c.tenant != "" {
				w.put(t, namespace("ns", c.tenant))
			}
			if c.grant != nil {
				w.put(t, c.grant)
			}
			got := w.build()
			if open := len(got.Filter.HostPorts) == 1; open != c.open || open == (len(got.Closed) == 1) {
				t.Fatalf("ports %+v, closed %+v", got.Filter.HostPorts, got.Closed)
			}
			if c.open && got.Filter.HostPorts[0].Own != c.own {
				t.Errorf("what the node sends to itself goes there: %v", !c.own)
			}
			if got.Devices.Pods[0].Loopback != c.own {
				t.Errorf("the pod answers loopback addresses: %v", !c.own)
			}
			nobody := func(uint8, netip.Addr, uint16) (bool, error) { return false, nil }
			w.store.View(func(tx store.ReadTx) {
				if no := HostPortConflict(tx, testConfig(), nil, w.records[0], nobody); (no == nil) != c.open {
					t.Errorf("ADD is told %+v", no)
				}
			})
		})
	}
}

// A pod whose port is closed does not reserve the port.
func TestHostPorts_Closed_FreeForOthers(t *testing.T) {
	w := newWorld(t, node("node1", "192.0.2.1"), vpc("blue", 20, "10.10.0.0/16"), namespace("ns", "blue"), namespace("plain", "ns:plain"))
	w.attach("blue", 20, "old", "10.10.1.10/24")
	w.attach("blue", 20, "new", "10.10.1.11/24")
	w.records[1].Pod.Namespace = "plain"
	for i := range w.records {
		w.asks(i, journal.HostPort{Protocol: "TCP", HostPort: 80, Port: 80})
	}
	got := w.build()
	if len(got.Filter.HostPorts) != 1 || got.Filter.HostPorts[0].Shadow != w.records[1].Shadow4 || len(got.Closed) != 1 {
		t.Errorf("ports %+v, closed %+v", got.Filter.HostPorts, got.Closed)
	}
	w.store.View(func(tx store.ReadTx) {
		if why := HostPortRace(tx, testConfig(), w.records, w.records[1]); why != nil {
			t.Error(why.Message)
		}
	})
}
