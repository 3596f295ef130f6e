// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/services"
)

func namespace(name, tenant string) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutNamespace(tx, &store.Namespace{Meta: store.Meta{UID: name}, Name: name, Tenant: tenant})
	}
}

func network(namespace, name, vpc string) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutNetwork(tx, &store.Network{Meta: store.Meta{UID: namespace + name}, Namespace: namespace, Name: name, Type: "vpc", VPC: vpc})
	}
}

func allow(name string, tenants ...string) func(store.Tx) error {
	return func(tx store.Tx) error {
		row := *store.GetVPC(tx, name)
		row.AllowedTenants = tenants
		return store.PutVPC(tx, &row)
	}
}

// scaledTenants are tenants with a namespace each, whose default Network is their
// VPC, and the cluster's own namespace.
func scaledTenants(t testing.TB) *world {
	t.Helper()
	w := tenants(t)
	w.put(t, namespace("blue", "blue"), namespace("red", "red"), namespace("kube-system", "ns:kube-system"), namespace("default", "ns:default"))
	w.put(t, network("blue", "default", "blue"), network("red", "default", "red"))
	w.put(t, allow("blue", "blue"), allow("red", "red"), allow("default", "*"))
	return w
}

func TestServiceBackends_VPCServices_OwnBackendsUsed(t *testing.T) {
	w := scaledTenants(t)
	web := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80}, {Name: "dns", Protocol: "UDP", Port: 53}, {Name: "odd", Protocol: "SCTP", Port: 9}}
	at := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 8080}, {Name: "dns", Protocol: "UDP", Port: 5353}}
	w.put(t,
		service("blue", "web", []string{"10.96.1.1"}, web...),
		slice("blue", "web", "web-1", at, ready("10.10.1.10"), ready("10.10.1.11"), ready("10.10.1.99")),
		service("red", "web", []string{"10.96.1.2"}, web[:1]...),
		slice("red", "web", "web-2", at, ready("10.10.1.10"), ready("10.10.1.11")),
		service("default", "plain", []string{"10.96.1.3"}, web[:1]...),
		slice("default", "plain", "plain-1", at, ready("10.10.1.10")),
		service("default", "nobody", []string{"10.96.1.4"}, web[:1]...),
		service("default", "kubernetes", []string{"10.96.0.1"}, web[:1]...),
		slice("default", "kubernetes", "kubernetes", at, ready("192.0.2.1")),
		func(tx store.Tx) error {
			row := *store.GetService(tx, "red", "web")
			row.Affinity, row.NodeLocal = time.Hour, true
			return store.PutService(tx, &row)
		},
	)
	want := []state.Service{
		{VIP: ip("10.96.0.1"), Port: 80, Proto: 6, Backends: []state.Backend{{IP: ip("192.0.2.1"), Port: 8080}}},
		{VNI: 1, VIP: ip("10.96.1.3"), Port: 80, Proto: 6, LeftOut: true},
		{VNI: 1, VIP: ip("10.96.1.4"), Port: 80, Proto: 6},
		{VNI: 20, VIP: ip("10.96.1.1"), Port: 53, Proto: 17, Backends: []state.Backend{{IP: ip("10.10.1.10"), Port: 5353}, {IP: ip("10.10.1.11"), Port: 5353}}},
		{VNI: 20, VIP: ip("10.96.1.1"), Port: 80, Proto: 6, Backends: []state.Backend{{IP: ip("10.10.1.10"), Port: 8080}, {IP: ip("10.10.1.11"), Port: 8080}}},
		{VNI: 30, VIP: ip("10.96.1.2"), Port: 80, Proto: 6, Affinity: time.Hour, Backends: []state.Backend{{IP: ip("10.10.1.10"), Port: 8080}}},
	}
	if d := cmp.Diff(want, w.build().Datapath.Services, byValue); d != "" {
		t.Errorf("services (-want +got):\n%s", d)
	}
}

func TestServiceMaps_EightVPC_AllFit(t *testing.T) {
	if services.MaxBackends > state.MaxBackends || 8*services.QuotaOfVPC.Rows > state.MaxServices || 8*services.QuotaOfVPC.Backends > state.MaxAllBackends {
		t.Errorf("a VPC may take %+v, and a port %d backends", services.QuotaOfVPC, services.MaxBackends)
	}
}

func TestServiceMaps_LargeVPC_OnlyItsShareTaken(t *testing.T) {
	w := scaledTenants(t)
	var backends []store.Endpoint
	for host := range 200 {
		addr := fmt.Sprintf("10.10.2.%d", host)
		w.put(t, address("blue", addr, "node2", store.HolderPod, addr))
		backends = append(backends, ready(addr))
	}
	port := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80}}
	for n := range 400 {
		name := fmt.Sprintf("web-%d", n)
		w.put(t, service("blue", name, []string{fmt.Sprintf("10.96.%d.%d", 2+n/200, n%200)}, port...), slice("blue", name, name, port, backends...))
	}
	w.put(t, service("red", "web", []string{"10.96.1.2"}, port...), slice("red", "web", "web", port, ready("10.10.1.10")))
	count := map[uint32]int{}
	for _, s := range w.build().Datapath.Services {
		count[s.VNI] += len(s.Backends)
	}
	if count[20] > 262144/8 || count[20] < 262144/8-400 || count[30] != 1 {
		t.Errorf("backends by VNI: %v", count)
	}
}

// BenchmarkAChangedService plans one of 5,000 Services of a VPC anew.
func BenchmarkAChangedService(b *testing.B) {
	w := scaledTenants(b)
	port := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80}}
	for host := range 200 {
		addr := fmt.Sprintf("10.10.2.%d", host)
		w.put(b, address("blue", addr, "node2", store.HolderPod, addr))
	}
	endpoints := func(n int) (list []store.Endpoint) {
		for i := range 4 {
			list = append(list, ready(fmt.Sprintf("10.10.2.%d", (n+i)%200)))
		}
		return list
	}
	for n := range 5000 {
		name := fmt.Sprintf("web-%d", n)
		w.put(b, service("blue", name, []string{fmt.Sprintf("10.96.%d.%d", 2+n/200, n%200)}, port...), slice("blue", name, name, port, endpoints(n)...))
	}
	p := &Planner{}
	w.plan(p)
	for n := 0; b.Loop(); n++ {
		w.put(b, slice("blue", "web-7", "web-7", port, endpoints(n)...))
		w.plan(p)
	}
}
