// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

func TestPartlyServed_SomeNodesRefuse_ReasonGiven(t *testing.T) {
	node := func(name string, change func(*store.Node)) *store.Node {
		row := &store.Node{Meta: operatortest.Meta("uid-"+name, 0), Name: name, Ready: true}
		if change != nil {
			change(row)
		}
		return row
	}
	unready := func(n *store.Node) { n.Ready = false }
	excluded := func(n *store.Node) { n.NoBalancers = true }
	backendOn := func(ip, node string) *store.Address {
		row := operatortest.Address("blue-vpc", "blue-net1", ip, operatortest.Pod("blue", "blue", "p", "", ""))
		row.Node = node
		return row
	}
	slice := func(ips ...string) *store.EndpointSlice {
		row := &store.EndpointSlice{Meta: operatortest.Meta("uid-slice", 0), Namespace: "blue", Name: "web-1", Service: "web"}
		for _, ip := range ips {
			row.Endpoints = append(row.Endpoints, store.Endpoint{Addresses: operatortest.Addrs(ip), Ready: true, PodUID: "uid-blue-p"})
		}
		return row
	}
	edge := &external.Address{
		Meta: operatortest.Meta("uid-edge", 0), IP: operatortest.Addrs("192.0.2.16")[0],
		Holder: store.Holder{Kind: store.HolderService, Namespace: "blue", Name: "web", UID: "uid-web"},
	}
	uplink := &external.Pool{
		Meta: operatortest.Meta("uid-uplink", 0), Name: "uplink", ForExternalIPs: true, Ready: true, AllowedTenants: []string{"blue"},
		Ranges: []store.AddrRange{{First: operatortest.Addrs("198.51.100.0")[0], Last: operatortest.Addrs("198.51.100.9")[0]}},
	}
	port := func(number uint16) []store.ServicePort {
		return []store.ServicePort{{Protocol: "TCP", Port: 80, NodePort: number}}
	}
	plain := func(s *store.Service) { s.Ports = port(0) }
	naming := func(s *store.Service) {
		s.Ports, s.ExternalIPs = port(0), operatortest.Addrs("198.51.100.1", "203.0.113.1")
	}
	one, two, both := node("a", nil), node("b", nil), slice("10.0.1.2", "10.0.1.3")
	for name, c := range map[string]struct {
		change func(*store.Service)
		rows   []any
		want   string
	}{
		"a load balancer":                  {plain, []any{edge, one, two, backendOn("10.0.1.2", "a"), slice("10.0.1.2")}, "192.0.2.16, because"},
		"external IPs that are granted":    {naming, []any{uplink, one, two, backendOn("10.0.1.2", "a"), slice("10.0.1.2")}, "198.51.100.1, because"},
		"external IPs that are not":        {naming, []any{one, two, backendOn("10.0.1.2", "a"), slice("10.0.1.2")}, ""},
		"no address from outside":          {plain, []any{one, two, backendOn("10.0.1.2", "a"), slice("10.0.1.2")}, ""},
		"with node ports":                  {func(s *store.Service) { s.Ports = port(30080) }, []any{edge, one, two, backendOn("10.0.1.2", "a"), slice("10.0.1.2")}, ""},
		"where each node answers alone":    {func(s *store.Service) { s.Ports, s.ExternalNodeLocal = port(0), true }, []any{edge, one, two, backendOn("10.0.1.2", "a"), slice("10.0.1.2")}, ""},
		"a backend on every node":          {plain, []any{edge, one, two, backendOn("10.0.1.2", "a"), backendOn("10.0.1.3", "b"), both}, ""},
		"one that nobody holds":            {plain, []any{edge, one, two, backendOn("10.0.1.2", "a"), both}, "because"},
		"no backend at all":                {plain, []any{edge, one, two}, ""},
		"but for nodes that are not ready": {plain, []any{edge, one, node("b", unready), backendOn("10.0.1.2", "a"), slice("10.0.1.2")}, ""},
		"but for nodes that are left out":  {plain, []any{edge, one, node("b", excluded), backendOn("10.0.1.2", "a"), slice("10.0.1.2")}, ""},
		"on its way out":                   {func(s *store.Service) { plain(s); s.Deleting = true }, []any{edge, one, two, backendOn("10.0.1.2", "a"), slice("10.0.1.2")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			all := append(rows(web(c.change), operatortest.Network("blue", "blue", "vpc-1", "blue-vpc", 1)), c.rows...)
			operatortest.New(t, all...).View(func(tx store.ReadTx) {
				got := partly(tx, store.ListServices(tx)[0], Rules{DefaultVPC: "default"})
				if (got == nil) != (c.want == "") || got != nil && (got.Reason != v1alpha1.NotServedByAllNodesReason || !strings.Contains(got.Message, c.want)) {
					t.Errorf("got %+v, want %q", got, c.want)
				}
			})
		})
	}
}

// It is examined again when a node is added, deleted or changed in this respect.
func TestServiceRequests_NodeChanges_WithoutNodePorts(t *testing.T) {
	ready := &store.Node{Name: "a", Ready: true}
	for name, c := range map[string]struct {
		change   func(*store.Service)
		old, now *store.Node
		want     int
	}{
		"one that comes":        {func(s *store.Service) { s.Ports = []store.ServicePort{{Port: 80}} }, nil, ready, 1},
		"one that goes":         {func(s *store.Service) { s.Ports = []store.ServicePort{{Port: 80}} }, ready, nil, 1},
		"one that is the same":  {func(s *store.Service) { s.Ports = []store.ServicePort{{Port: 80}} }, ready, &store.Node{Name: "a", Ready: true, Pods: 9}, 0},
		"one with node ports":   {func(s *store.Service) { s.Ports = []store.ServicePort{{Port: 80, NodePort: 30080}} }, nil, ready, 0},
		"one that is not ready": {func(s *store.Service) { s.Ports = []store.ServicePort{{Port: 80}} }, nil, &store.Node{Name: "a"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			service := web(func(s *store.Service) { s.ExternalIPs = operatortest.Addrs("198.51.100.1"); c.change(s) })
			operatortest.New(t, rows(service)...).View(func(tx store.ReadTx) {
				if got := ofNode(tx, c.old, c.now); len(got) != c.want {
					t.Errorf("%d are asked for, want %d", len(got), c.want)
				}
			})
		})
	}
}
