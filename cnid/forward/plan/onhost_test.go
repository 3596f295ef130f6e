// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// of is an endpoint that belongs to a certain pod according to its slice.
func of(pod string, e store.Endpoint) store.Endpoint {
	e.PodUID = pod
	return e
}

func hostPod(uid, namespace, node string, terminal bool) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutHostPod(tx, &store.HostPod{Meta: store.Meta{UID: uid}, Namespace: namespace, Name: uid, Node: node, Terminal: terminal})
	}
}

// A writer of slices may name any pod of any node. Only the pod that is there counts.
func TestNodePort_HostNetworkPods_Reached(t *testing.T) {
	cases := map[string]struct {
		namespace string
		protocol  string
		port      uint16
		endpoint  store.Endpoint
		all, here []netip.AddrPort
	}{
		"here":                        {endpoint: of("edge", on("node1", "192.0.2.1")), all: at("192.0.2.1:8080"), here: at("192.0.2.1:8080")},
		"on another node":             {endpoint: of("other", on("node2", "192.0.2.2")), all: at("10.244.0.8:30080")},
		"shutting down":               {endpoint: of("edge", leaving("node1", "192.0.2.1")), all: at("192.0.2.1:8080"), here: at("192.0.2.1:8080")},
		"of a pod that nobody knows":  {endpoint: of("forged", on("node1", "192.0.2.1"))},
		"of a pod that has ended":     {endpoint: of("ended", on("node1", "192.0.2.1"))},
		"of another namespace's pod":  {endpoint: of("system", on("node1", "192.0.2.1"))},
		"of a pod of another node":    {endpoint: of("other", on("node1", "192.0.2.1"))},
		"with another node's address": {endpoint: of("edge", on("node1", "192.0.2.2"))},
		"with no node's address":      {endpoint: of("edge", on("node1", "192.0.2.9"))},
		"elsewhere, with this node's": {endpoint: of("other", on("node2", "192.0.2.1"))},
		"in a tenant's VPC":           {namespace: "blue", endpoint: of("tenants", on("node1", "192.0.2.1"))},
		"the tunnel's port":           {protocol: "UDP", port: 4789, endpoint: of("edge", on("node1", "192.0.2.1"))},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.namespace == "" {
				c.namespace = "default"
			}
			if c.protocol == "" {
				c.protocol, c.port = "TCP", 8080
			}
			w := scaledTenants(t)
			w.put(t, hostPod("edge", "default", "node1", false), hostPod("ended", "default", "node1", true), hostPod("other", "default", "node2", false),
				hostPod("system", "kube-system", "node1", false), hostPod("tenants", "blue", "node1", false))
			w.put(t, service(c.namespace, "web", []string{"10.96.1.1"}, store.ServicePort{Name: "web", Protocol: c.protocol, Port: 80, NodePort: 30080}),
				slice(c.namespace, "web", "web-1", []store.ServicePort{{Name: "web", Protocol: c.protocol, Port: c.port}}, c.endpoint))
			tunnel := func(cfg *Config) { cfg.TunnelPort = 4789 }
			got := w.build(serveNodePorts, tunnel).Filter.Frontends
			if len(got) != 1 {
				t.Fatalf("frontends %+v", got)
			}
			if diff := cmp.Diff([][]netip.AddrPort{c.all, c.here}, [][]netip.AddrPort{got[0].All, got[0].Here}, byValue); diff != "" {
				t.Errorf("all and here (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHostNetworkPod_ObjectComesAndGoes_Follows(t *testing.T) {
	ports := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30080}}
	w := scaledTenants(t)
	w.put(t, service("default", "web", []string{"10.96.1.1"}, ports...), slice("default", "web", "web-1", ports, of("edge", on("node1", "192.0.2.1"))))
	var p Planner
	for _, there := range []bool{false, true, false} {
		w.put(t, func(tx store.Tx) error {
			store.DeleteHostPod(tx, "edge")
			return nil
		})
		if there {
			w.put(t, hostPod("edge", "default", "node1", false))
		}
		if got := w.plan(&p, serveNodePorts).Filter.Frontends; len(got) != 1 || (len(got[0].Here) == 1) != there {
			t.Errorf("frontends %+v while the pod is there: %v", got, there)
		}
	}
}

func TestLocalService_NodeItselfAsks_OtherNodesIncluded(t *testing.T) {
	ports := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30080}}
	w := scaledTenants(t)
	w.put(t, service("blue", "web", []string{"10.96.1.1"}, ports...), slice("blue", "web", "web-1", ports, on("node1", "10.10.1.10"), on("node2", "10.10.1.11")))
	if got := w.build(serveNodePorts).Filter.Frontends; len(got) != 1 || got[0].Own != nil {
		t.Errorf("frontends %+v of a Service that shows nobody", got)
	}
	w.put(t, func(tx store.Tx) error {
		row := *store.GetService(tx, "blue", "web")
		row.ExternalNodeLocal = true
		return store.PutService(tx, &row)
	})
	want := at("169.254.64.2:80", "192.0.2.2:30080")
	if got := w.build(serveNodePorts).Filter.Frontends; len(got) != 1 || cmp.Diff(want, got[0].Own, byValue) != "" {
		t.Errorf("frontends %+v, want the node itself to be led to %v", got, want)
	}
}

func TestNodePort_VPCWithEgress_ServicesIncluded(t *testing.T) {
	ports := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30080}, {Name: "dns", Protocol: "UDP", Port: 53, NodePort: 30053}}
	w := scaledTenants(t)
	w.put(t, service("blue", "web", []string{"10.96.1.1"}, ports...),
		service("red", "web", []string{"10.96.1.2"}, store.ServicePort{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30081}),
		service("default", "web", []string{"10.96.1.3"}, store.ServicePort{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30082}))
	egress := func(open bool) func(store.Tx) error {
		return func(tx store.Tx) error {
			row := *store.GetVPC(tx, "blue")
			row.EgressMasquerade = open
			return store.PutVPC(tx, &row)
		}
	}
	var p Planner
	for _, open := range []bool{false, true, false} {
		w.put(t, egress(open))
		var want []state.NodePort
		if open {
			want = []state.NodePort{{VNI: 20, Proto: 6, Port: 30080, Family: ipfamily.IPv4}, {VNI: 20, Proto: 17, Port: 30053, Family: ipfamily.IPv4}}
		}
		if diff := cmp.Diff(want, w.plan(&p, serveNodePorts).Datapath.State().NodePorts); diff != "" {
			t.Errorf("with egress %v (-want +got):\n%s", open, diff)
		}
	}
	w.put(t, egress(true))
	if got := w.build().Datapath.NodePorts; len(got) != 0 {
		t.Errorf("%+v where somebody else serves node ports", got)
	}
}
