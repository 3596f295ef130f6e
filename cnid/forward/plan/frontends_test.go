// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

func serveNodePorts(cfg *Config) { cfg.NodePorts = true }

// on is a ready endpoint that is on a node according to its slice.
func on(node, addr string) store.Endpoint {
	return store.Endpoint{Addresses: ips(addr), Ready: true, Node: node}
}

func leaving(node, addr string) store.Endpoint {
	return store.Endpoint{Addresses: ips(addr), Terminating: true, Node: node}
}

func at(list ...string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, text := range list {
		out = append(out, netip.MustParseAddrPort(text))
	}
	return out
}

func TestNodePort_LocalAndRemoteBackends_BothUsed(t *testing.T) {
	ports := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 8080}}
	cases := map[string]struct {
		endpoints []store.Endpoint
		change    func(*store.Service)
		all, here []netip.AddrPort
		affinity  time.Duration
		vni       uint32
	}{
		"one here, two on another node": {
			endpoints: []store.Endpoint{on("node1", "10.10.1.10"), on("node2", "10.10.1.11"), on("node2", "10.10.1.12")},
			all:       at("169.254.64.2:8080", "10.244.0.8:30080", "10.244.0.8:30080"), here: at("169.254.64.2:8080"),
		},
		"nobody":                   {},
		"one that nobody has here": {endpoints: []store.Endpoint{on("node1", "10.10.1.99")}},
		"one that is elsewhere, whatever its slice says": {
			endpoints: []store.Endpoint{on("node1", "10.10.1.11"), on("node9", "10.10.1.12")}, all: at("10.244.0.8:30080", "10.244.0.8:30080"),
		},
		"on a node that is not known": {endpoints: []store.Endpoint{on("", "10.10.1.98"), on("node1", "10.10.1.13")}},
		"one that nobody has":         {endpoints: []store.Endpoint{on("node2", "10.10.1.99")}},
		"the one here shuts down, another is ready": {
			endpoints: []store.Endpoint{leaving("node1", "10.10.1.10"), on("node2", "10.10.1.11")},
			all:       at("10.244.0.8:30080"), here: at("169.254.64.2:8080"),
		},
		"all shut down": {
			endpoints: []store.Endpoint{leaving("node1", "10.10.1.10"), leaving("node2", "10.10.1.11")},
			all:       at("169.254.64.2:8080", "10.244.0.8:30080"), here: at("169.254.64.2:8080"),
		},
		"with affinity": {
			endpoints: []store.Endpoint{on("node1", "10.10.1.10")}, change: func(s *store.Service) { s.Affinity = time.Hour },
			all: at("169.254.64.2:8080"), here: at("169.254.64.2:8080"), affinity: time.Hour, vni: 20,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := scaledTenants(t)
			w.put(t, address("blue", "10.10.1.12", "node2", store.HolderPod, "b3"), address("blue", "10.10.1.13", "node9", store.HolderPod, "b4"))
			w.put(t, slice("blue", "web", "web-1", ports, c.endpoints...), func(tx store.Tx) error {
				row := &store.Service{Meta: store.Meta{UID: "web"}, Namespace: "blue", Name: "web", ClusterIPs: ips("10.96.1.1")}
				row.Ports = []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30080}, {Name: "x", Protocol: "SCTP", Port: 9, NodePort: 30009}}
				if c.change != nil {
					c.change(row)
				}
				return store.PutService(tx, row)
			})
			want := []*ruleset.Frontend{{Protocol: 6, IP: ip("0.0.0.0"), Port: 30080, All: c.all, Here: c.here, Affinity: c.affinity, VNI: c.vni}}
			if diff := cmp.Diff(want, w.build(serveNodePorts).Filter.Frontends, byValue); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFrontends_ServiceWithoutVPC_None(t *testing.T) {
	ports := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30080}}
	w := scaledTenants(t)
	w.put(
		t,
		service("nowhere", "web", []string{"10.96.1.1"}, ports...),
		service("blue", "plain", []string{"10.96.1.2"}, store.ServicePort{Name: "web", Protocol: "TCP", Port: 80}),
	)
	if got := w.build(serveNodePorts).Filter.Frontends; len(got) != 0 {
		t.Errorf("frontends %+v", got)
	}
	w.put(t, service("blue", "web", []string{"10.96.1.3", "fd96::3"}, ports...))
	if got := w.build(serveNodePorts).Filter.Frontends; len(got) != 2 {
		t.Errorf("frontends %+v, want one per family", got)
	}
	if got := w.build().Filter.Frontends; len(got) != 0 {
		t.Errorf("frontends %+v where somebody else serves them", got)
	}
}

func TestFrontends_NoDefaultVPCAddress_NothingForwarded(t *testing.T) {
	ports := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30080}}
	w := scaledTenants(t)
	w.put(t, service("blue", "web", []string{"10.96.1.1"}, ports...), slice("blue", "web", "web-1", ports, on("node2", "10.10.1.11")),
		func(tx store.Tx) error {
			store.DeleteAddress(tx, "default.10.244.0.7", "default10.244.0.7")
			return nil
		})
	if got := w.build(serveNodePorts).Filter.Frontends; len(got) != 1 || len(got[0].All) != 0 {
		t.Errorf("frontends %+v, want one that leads nowhere", got)
	}
}

func TestFrontends_LocalPolicy_ClientAddressShown(t *testing.T) {
	ports := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30080}}
	w := scaledTenants(t)
	w.put(t, slice("blue", "web", "web-1", ports, on("node1", "10.10.1.10")), service("blue", "web", []string{"10.96.1.1"}, ports...))
	fronted := func() []uint32 {
		var list []uint32
		for _, v := range w.build(serveNodePorts).Datapath.VPCs {
			if v.Fronted {
				list = append(list, v.VNI)
			}
		}
		return list
	}
	if got := fronted(); got != nil {
		t.Errorf("VPCs %v may answer the outside", got)
	}
	w.put(t, func(tx store.Tx) error {
		row := *store.GetService(tx, "blue", "web")
		row.ExternalNodeLocal, row.HealthCheckNodePort = true, 32000
		return store.PutService(tx, &row)
	})
	checked := func() []serviceplan.HealthCheck {
		var p Planner
		return w.plan(&p, serveNodePorts).Health
	}
	if diff := cmp.Diff([]serviceplan.HealthCheck{{Service: serviceplan.Ref{Namespace: "blue", Name: "web"}, Port: 32000, Backends: 1}}, checked()); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	defer func() {
		w.put(t, slice("blue", "web", "web-1", ports, leaving("node1", "10.10.1.10"), on("node2", "10.10.1.11")))
		if got := checked(); len(got) != 1 || got[0].Backends != 0 {
			t.Errorf("health %+v while the backend shuts down, want none", got)
		}
	}()
	want := []*ruleset.Frontend{{
		Protocol: 6, IP: ip("0.0.0.0"), Port: 30080, All: at("169.254.64.2:80"), Here: at("169.254.64.2:80"), Local: true,
		Hidden: prefixes("10.10.0.0/16", "10.96.0.0/16", "10.244.0.0/16", "169.254.0.0/16", "169.254.64.0/18"),
	}}
	if diff := cmp.Diff(want, w.build(serveNodePorts).Filter.Frontends, byValue); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint32{20}, fronted()); diff != "" {
		t.Errorf("VPCs that may answer the outside (-want +got):\n%s", diff)
	}
}

// TestFrontends_SourceRanges_HoldAtAllExternalAddresses: external IPs do not lead around the ranges of a
// load balancer. Its node port has none.
func TestFrontends_SourceRanges_HoldAtAllExternalAddresses(t *testing.T) {
	const named = "198.51.100.7"
	w := scaledTenants(t)
	w.putAll(t,
		&external.Pool{
			Meta: store.Meta{UID: "pool"}, Name: "pool", AllowedTenants: []string{"*"}, ForExternalIPs: true, Ready: true,
			Ranges: []store.AddrRange{{First: ip(named), Last: ip(named)}},
		},
		&store.Service{
			Meta: store.Meta{UID: "web"}, Namespace: "blue", Name: "web", ClusterIPs: ips("10.96.1.1"), ExternalIPs: ips(named),
			SourceRanges: prefixes("192.0.2.0/24"), Ports: []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30080}},
		},
	)
	got := map[string][]netip.Prefix{}
	for _, f := range w.build(serveNodePorts).Filter.Frontends {
		got[f.IP.String()] = f.Sources
	}
	if diff := cmp.Diff(map[string][]netip.Prefix{"0.0.0.0": nil, named: prefixes("192.0.2.0/24")}, got, byValue); diff != "" {
		t.Errorf("clients by address (-want +got):\n%s", diff)
	}
}

// TestFrontends_VPCWithoutVNI_NotExposed: the packet filter keeps the clients of a Service
// by the VNI, and refuses all of its table without one.
func TestFrontends_VPCWithoutVNI_NotExposed(t *testing.T) {
	for vni, want := range map[uint32]int{0: 0, 20: 1} {
		w := scaledTenants(t)
		w.put(t, vpc("blue", vni, "10.10.0.0/16"), allow("blue", "blue"), func(tx store.Tx) error {
			return store.PutService(tx, &store.Service{
				Meta: store.Meta{UID: "web"}, Namespace: "blue", Name: "web", ClusterIPs: ips("10.96.1.1"), Affinity: time.Hour,
				Ports: []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30080}},
			})
		})
		if got := w.build(serveNodePorts).Filter.Frontends; len(got) != want {
			t.Errorf("with the VNI %d there are %d frontends, want %d", vni, len(got), want)
		}
	}
}
