// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package externaladdress

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

func node(name string, change func(*store.Node)) *store.Node {
	row := &store.Node{Meta: operatortest.Meta("uid-"+name, 0), Name: name, Ready: true}
	if change != nil {
		change(row)
	}
	return row
}

func web(change func(*store.Service)) *store.Service {
	row := &store.Service{Meta: operatortest.Meta("uid-web", 0), Namespace: "blue", Name: "web", Network: "n", LoadBalancer: store.LoadBalancerExternal}
	if change != nil {
		change(row)
	}
	return row
}

func address(ip, node string) *external.Address {
	return &external.Address{
		Meta: operatortest.Meta("uid-"+ip, 0), IP: netip.MustParseAddr(ip), Pool: "edge", Node: node,
		Holder: store.Holder{Kind: store.HolderService, Namespace: "blue", Name: "web", UID: "uid-web"},
	}
}

func slice(ready bool, ips ...string) *store.EndpointSlice {
	return &store.EndpointSlice{
		Meta: operatortest.Meta("uid-slice", 0), Namespace: "blue", Name: "web-1", Service: "web",
		Endpoints: []store.Endpoint{{Addresses: operatortest.Addrs(ips...), Ready: ready, PodUID: "uid-blue-p"}},
	}
}

func TestAnnouncer_Nodes_OneChosen(t *testing.T) {
	unready := func(n *store.Node) { n.Ready = false }
	local := func(s *store.Service) { s.ExternalNodeLocal = true }
	noNodePorts := func(s *store.Service) { s.Ports = []store.ServicePort{{Protocol: "TCP", Port: 80}} }
	nodePorts := func(s *store.Service) { s.Ports = []store.ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30080}} }
	held := func(ip, node string) *store.Address {
		row := operatortest.Address("blue-vpc", "net1", ip, operatortest.Pod("blue", "blue", "p", "", ""))
		row.Node = node
		return row
	}
	for name, c := range map[string]struct {
		now  string
		rows []any
		want []string
		gone bool
	}{
		"any that is fit":                          {"", []any{web(nil), node("a", nil), node("b", nil)}, []string{"a", "b"}, false},
		"the one that does":                        {"b", []any{web(nil), node("a", nil), node("b", nil), node("c", nil)}, []string{"b"}, false},
		"not one that is not ready":                {"a", []any{web(nil), node("a", unready), node("b", nil)}, []string{"b"}, false},
		"not one that goes":                        {"a", []any{web(nil), node("a", func(n *store.Node) { n.Deleting = true }), node("b", nil)}, []string{"b"}, false},
		"not one out of service":                   {"a", []any{web(nil), node("a", func(n *store.Node) { n.OutOfService = true }), node("b", nil)}, []string{"b"}, false},
		"not one that is for nothing":              {"a", []any{web(nil), node("a", func(n *store.Node) { n.NoBalancers = true }), node("b", nil)}, []string{"b"}, false},
		"the last while none is ready":             {"a", []any{web(nil), node("a", unready), node("b", unready)}, []string{"a"}, false},
		"none that is fenced":                      {"a", []any{web(nil), node("a", func(n *store.Node) { n.OutOfService = true }), node("b", unready)}, []string{""}, false},
		"none that is gone":                        {"a", []any{web(nil)}, []string{""}, false},
		"one with a backend":                       {"a", []any{web(local), node("a", nil), node("b", nil), node("c", nil), held("10.0.1.2", "c"), slice(true, "10.0.1.2")}, []string{"c"}, false},
		"none without a backend":                   {"a", []any{web(local), node("a", nil), node("b", nil), held("10.0.1.2", "b"), slice(false, "10.0.1.2")}, []string{""}, false},
		"none by a backend of nobody's":            {"a", []any{web(local), node("a", nil), slice(true, "10.0.1.2")}, []string{""}, false},
		"one with a backend, as none can send on":  {"a", []any{web(noNodePorts), node("a", nil), node("b", nil), node("c", nil), held("10.0.1.2", "c"), slice(true, "10.0.1.2")}, []string{"c"}, false},
		"the one that does, as it can send on":     {"a", []any{web(nodePorts), node("a", nil), node("c", nil), held("10.0.1.2", "c"), slice(true, "10.0.1.2")}, []string{"a"}, false},
		"the one that does, as no other is better": {"a", []any{web(noNodePorts), node("a", nil), node("b", nil), held("10.0.1.2", "b"), slice(false, "10.0.1.2")}, []string{"a"}, false},
		"nobody, as the Service is gone":           {"a", []any{node("a", nil)}, []string{""}, true},
		"nobody, as its successor is there":        {"a", []any{node("a", nil), web(func(s *store.Service) { s.UID = "successor" })}, []string{""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			rows := append([]any{
				&store.Namespace{Meta: operatortest.Meta("uid-blue", 0), Name: "blue", Tenant: "blue"},
				operatortest.VPC("blue-vpc", 1, []string{"blue"}, "10.0.0.0/16"), operatortest.Subnet("net1", "blue-vpc", "net1", 0, "10.0.1.0/24"),
				operatortest.Network("blue", "blue", "n", "blue-vpc", 1),
			}, c.rows...)
			operatortest.New(t, rows...).View(func(tx store.ReadTx) {
				d := decide(tx, address("192.0.2.16", c.now), "default")
				found := false
				for _, want := range c.want {
					found = found || d.node == want
				}
				if !found || d.release != c.gone {
					t.Errorf("got %+v, want one of %q, gone: %v", d, c.want, c.gone)
				}
			})
		})
	}
}

// TestAnnouncer_KubeletForgesNodeFields_NoneTaken: it writes each field of its Node that its
// token may write, the external address among its own addresses too.
func TestAnnouncer_KubeletForgesNodeFields_NoneTaken(t *testing.T) {
	for name, write := range map[string]func(*store.Node){
		"labels":            func(n *store.Node) { n.Zone, n.NoBalancers, n.NodeIPAM, n.Selection = "z", false, true, 7 },
		"status.conditions": func(n *store.Node) { n.Ready = true },
		"status.addresses": func(n *store.Node) {
			n.Addresses, n.AllAddresses = operatortest.Addrs("192.0.2.16"), operatortest.Addrs("192.0.2.16")
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, victim := range []string{"a", "b", "c"} { // whichever has the greatest weight
				rows := []any{web(nil)}
				for _, one := range []string{"a", "b", "c"} {
					if one == victim {
						rows = append(rows, node(one, nil))
					} else {
						rows = append(rows, node(one, write))
					}
				}
				operatortest.New(t, rows...).View(func(tx store.ReadTx) {
					if d := decide(tx, address("192.0.2.16", victim), "default"); d.node != victim || d.release {
						t.Errorf("got %+v, want %s as before", d, victim)
					}
				})
			}
		})
	}
}

// A node that goes moves its own addresses, and a new node moves none.
func TestAnnouncer_NodesComeAndGo_FewAddressesMove(t *testing.T) {
	elected := func(now map[string]string, nodes ...string) map[string]string {
		rows := []any{web(nil)}
		for _, name := range nodes {
			rows = append(rows, node(name, nil))
		}
		next := map[string]string{}
		operatortest.New(t, rows...).View(func(tx store.ReadTx) {
			for i := range 200 {
				ip := fmt.Sprintf("192.0.2.%d", i)
				next[ip] = decide(tx, address(ip, now[ip]), "default").node
			}
		})
		return next
	}
	three := elected(nil, "a", "b", "c")
	counts := map[string]int{}
	for _, name := range three {
		counts[name]++
	}
	for _, name := range []string{"a", "b", "c"} {
		if counts[name] < 200/6 {
			t.Errorf("node %s announces %d of 200", name, counts[name])
		}
	}
	for ip, name := range elected(three, "a", "c") {
		if three[ip] != "b" && name != three[ip] || name == "b" {
			t.Errorf("%s moves from %s to %s as b goes", ip, three[ip], name)
		}
	}
	for ip, name := range elected(three, "a", "b", "c", "d") {
		if name != three[ip] {
			t.Errorf("%s moves from %s to %s as d comes", ip, three[ip], name)
		}
	}
}
