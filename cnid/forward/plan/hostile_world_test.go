// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/core"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/roles"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// hostileRows are rows of each type that a plan depends on, of a tenant with the VPC bad, and
// younger than all others.
func hostileRows() []any {
	meta := func(uid string) store.Meta { return store.Meta{UID: "bad-" + uid, Created: time.Unix(1000, 0)} }
	web := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30066}}
	at := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 8080}}
	id := scaled.ID{Namespace: "bad", Service: "web", ServiceUID: "bad-service", VPC: "bad", VPCUID: "bad-vpc", Exposed: true}
	return []any{
		&store.VPC{
			Meta: meta("vpc"), Name: "bad", VNI: 66, Prefixes: prefixes("10.66.0.0/16"), AllowedTenants: []string{"bad"}, EgressMasquerade: true,
			EgressAllow: prefixes("198.51.100.0/24"), EgressDeny: prefixes("198.51.100.7/32"), Ready: true,
		},
		&store.Subnet{
			Meta: meta("subnet"), Name: "bad1", VPC: "bad", ShortName: "bad1", Prefixes: prefixes("10.66.1.0/24"), Gateways: ips("10.66.1.1"),
			Reserved: []store.AddrRange{{First: ip("10.66.1.2"), Last: ip("10.66.1.3")}}, Ready: true,
		},
		&store.Address{
			Meta: meta("address"), Name: "bad.10.66.1.20", VPC: "bad", Subnet: "bad1", IP: ip("10.66.1.20"), MAC: "02:00:00:00:66:01",
			Node: "node2", Holder: store.Holder{Kind: store.HolderPod, Namespace: "bad", Name: "far", UID: "far"}, Attachment: "eth0", Set: ips("10.66.1.20"),
		},
		&store.Node{Meta: meta("node"), Name: "node9", Addresses: ips("192.0.2.9"), AllAddresses: ips("192.0.2.9", "203.0.113.66"), Zone: "z", Ready: true},
		&store.Namespace{Meta: meta("namespace"), Name: "bad", Tenant: "bad"},
		&store.Network{Meta: meta("network"), Namespace: "bad", Name: "default", Tenant: "bad", Type: "vpc", VPC: "bad", Ready: true},
		&store.Pod{
			Meta: store.Meta{UID: "bad-pod"}, Namespace: "bad", Name: "pod", Tenant: "bad", Node: "node1", NetworkProbes: true, NetworkHooks: true,
			HostPorts: []store.HostPort{{Protocol: "TCP", HostPort: 6666, Port: 66}},
		},
		&store.HostPod{Meta: meta("hostpod"), Namespace: "bad", Name: "host", Node: "node1"},
		&store.Service{
			Meta: meta("service"), Namespace: "bad", Name: "web", ClusterIPs: ips("10.96.66.1"), Ports: web, Affinity: time.Hour,
			ExternalIPs: ips("198.18.0.66"), LoadBalancer: store.LoadBalancerExternal, SourceRanges: prefixes("198.18.0.0/15"), HealthCheckNodePort: 30067,
		},
		&store.EndpointSlice{
			Meta: meta("slice"), Namespace: "bad", Name: "web-1", Service: "web", Ports: at,
			Endpoints: []store.Endpoint{{Addresses: ips("10.66.1.20"), Ready: true, Node: "node2", PodUID: "far"}},
		},
		&store.ServiceCIDR{Meta: meta("cidr"), Name: "more", Prefixes: prefixes("10.97.0.0/16")},
		&store.SharedService{Meta: meta("shared"), Name: "bad", ServiceNamespace: "bad", ServiceName: "web", Ready: true},
		&external.Pool{
			Meta: meta("pool"), Name: "bad", Ranges: []store.AddrRange{{First: ip("198.18.0.66"), Last: ip("198.18.0.67")}}, AllowedTenants: []string{"bad"},
			ForExternalIPs: true, Ready: true,
		},
		&external.Address{
			Meta: meta("external"), IP: ip("198.18.1.66"), Pool: "bad", Node: "node1",
			Holder: store.Holder{Kind: store.HolderService, Namespace: "bad", Name: "web", UID: "bad-service"},
		},
		&external.HostAccess{
			Meta:           meta("access"),
			Name:           "bad",
			AllowedTenants: []string{"bad"},
			Ports:          []external.HostPortRange{{Protocol: "TCP", First: 6000, Last: 7000}},
		},
		&roles.Member{Meta: meta("member"), Name: "bad.node2", VPC: "bad", VPCUID: "bad-vpc", Node: "node2", NodeUID: "node2", Stage: roles.Serving, Revision: 3},
		&multinet.Claim{
			Meta: meta("claim"), Namespace: "bad", Name: "bad-pod.net1", PodName: "pod", PodUID: "bad-pod", Node: "node1", Interface: "net1",
			Driver: "macvlan", Network: lan("lan9"), Addresses: []string{"192.168.66.2/24"},
		},
		&multinet.DomainClaim{Meta: meta("domain"), Number: one + 9, Network: lan("lan9")},
		&scaled.Endpoint{
			Meta: meta("scaled"), Name: "bad.web", ID: id,
			Head: &scaled.Head{
				Created: time.Unix(1000, 0), Tenant: "bad", ClusterIPs: ips("10.96.66.1"), LoadBalancerIPs: ips("10.66.1.40"), ExternalIPs: ips("198.18.0.66"),
				ExternalLoadBalancer: true, Ports: web, HealthCheckNodePort: 30067, Affinity: time.Hour, SourceRanges: prefixes("198.18.0.0/15"),
				InVPC: &scaled.VPC{VNI: 66, Prefixes: prefixes("10.66.0.0/16")}, UsedRows: 1, UsedBackends: 1,
			},
			Backends: []scaled.Backend{{IP: ip("10.66.1.20"), Node: "node2", PodUID: "far", Targets: []scaled.Target{{Protocol: "TCP", Port: 80, Target: 8080}}}},
		},
	}
}

// kindOf is the kind of a row: a node follows pods of both sorts as one kind.
func kindOf(row any) *descriptor.Kind {
	if kind := kinds.OfRow(row); kind != nil {
		return kind
	}
	return core.Pod.OnNode("node1").Kind
}

// idOf is the ID of the object of a row: most kinds have its name in the row.
func idOf(row any) descriptor.ID {
	switch row := row.(type) {
	case *external.Address:
		return descriptor.ID{Name: strings.ReplaceAll(row.IP.String(), ":", "-"), UID: row.UID}
	case *multinet.DomainClaim:
		return descriptor.ID{Name: fmt.Sprintf("domain-%d", row.Number), UID: row.UID}
	}
	v, id := reflect.ValueOf(row).Elem(), descriptor.ID{}
	id.Name, id.UID = v.FieldByName("Name").String(), v.FieldByName("UID").String()
	if namespace := v.FieldByName("Namespace"); namespace.IsValid() {
		id.Namespace = namespace.String()
	}
	return id
}

// healthyRows adds the rows of others to the rows of tenants.
func healthyRows(t *testing.T) *world {
	t.Helper()
	w := scaledTenants(t)
	web, at := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30001}}, []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 8080}}
	w.put(t,
		service("blue", "web", []string{"10.96.1.1"}, web...), slice("blue", "web", "web", at, on("node1", "10.10.1.10"), on("node2", "10.10.1.11")),
		service("default", "kubernetes", []string{"10.96.0.1"}, store.ServicePort{Name: "https", Protocol: "TCP", Port: 443}),
		slice("default", "kubernetes", "kubernetes", []store.ServicePort{{Name: "https", Protocol: "TCP", Port: 6443}}, ready("192.0.2.7")),
		podWithHooks("b1"), rows(numbered(one, lan("lan1")), outsideAddress(lan("lan1"), "192.168.0.9", "blue", "x")),
		rows(outsideSlice(lan("lan1"), "blue", "web", backend("x", "192.168.0.9"))),
	)
	w.attachOutside(t, lan("lan1"), "a", "192.168.0.2/24")
	return w
}

// newArena has the hostile tenant's pod here. scaled: the operator judges Services.
func newArena(t *testing.T, judged bool) *arena {
	t.Helper()
	w := healthyRows(t)
	a := &arena{world: w, mine: map[reflect.Type]any{}, outcome: map[string]int{}}
	a.adapt = func(cfg *Config) { cfg.NodePorts, cfg.ScaledEndpoints = true, judged }
	if judged {
		present := map[string]uint32{"blue": 20, "red": 30, "default": 1, lan("lan1").Domain(): one}
		w.put(t, func(tx store.Tx) error {
			cfg := testConfig()
			cfg.NodePorts = true
			return replaceScaled(tx, judgeAll(tx, cfg, present))
		})
	}
	a.healthy = rowsOf(w.build(a.adapt))
	for _, row := range hostileRows() {
		a.mine[reflect.TypeOf(row)] = row
		kind := kindOf(row)
		w.put(t, func(tx store.Tx) error { return kind.Put(tx, row) })
	}
	for of := range dependencies {
		if a.mine[of] == nil {
			t.Fatalf("no hostile row of type %s, which the plan depends on: add one to hostileRows", of)
		}
	}
	w.attach("bad", 66, "bad-pod", "10.66.1.10/24")
	w.attachOutside(t, lan("lan9"), "bad-pod", "192.168.66.2/24")
	w.records[len(w.records)-1].Pod.Namespace = "bad"
	w.records[len(w.records)-2].Pod.Namespace = "bad"
	a.healthyPods(t)
	return a
}

// healthyPods fails the test where the hostile tenant has no part of the plan: its rows would
// prove nothing.
func (a *arena) healthyPods(t *testing.T) {
	t.Helper()
	rows := rowsOf(a.build(a.adapt))
	for _, key := range []string{"VPC with VNI 66", "subnet 10.66.1.0/24 in VNI 66", "address 10.66.1.20 in VNI 66", "announced address 198.18.1.66", "node 192.0.2.9"} {
		if rows[key] == "" {
			t.Errorf("the plan has no %s: %v", key, rows)
		}
	}
}

// theirs are the rows of the healthy world that a case must not replace.
func (a *arena) theirs(tx store.ReadTx) (list []any) {
	for _, name := range []string{"default", "blue", "red"} {
		list = append(list, store.GetVPC(tx, name), store.GetNamespace(tx, name))
	}
	for _, name := range []string{"default", "blue1", "red1"} {
		list = append(list, store.GetSubnet(tx, name))
	}
	for _, name := range []string{"node1", "node2"} {
		list = append(list, store.GetNode(tx, name))
	}
	list = append(list, store.GetNamespace(tx, "kube-system"), store.GetService(tx, "blue", "web"), store.GetService(tx, "default", "kubernetes"),
		store.GetEndpointSlice(tx, "blue", "web"), store.GetEndpointSlice(tx, "default", "kubernetes"), store.GetNetwork(tx, "blue", "default"),
		store.GetNetwork(tx, "red", "default"), multinet.GetDomainClaim(tx, one))
	return list
}
