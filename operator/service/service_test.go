// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

func web(change func(*store.Service)) *store.Service {
	row := &store.Service{
		Meta: operatortest.Meta("uid-web", 0), Namespace: "blue", Name: "web", Network: "vpc-1", ClusterIPs: operatortest.Addrs("10.96.0.7"),
	}
	change(row)
	return row
}

func rows(service *store.Service, more ...any) []any {
	return append([]any{
		&store.Namespace{Meta: operatortest.Meta("uid-blue", 0), Name: "blue", Tenant: "blue"},
		&store.Namespace{Meta: operatortest.Meta("uid-red", 0), Name: "red", Tenant: "red"},
		operatortest.VPC("blue-vpc", 1, []string{"blue"}, "10.0.0.0/16"), operatortest.Subnet("blue-net1", "blue-vpc", "net1", 0, "10.0.1.0/24"),
		operatortest.VPC("red-vpc", 2, []string{"red"}, "10.0.0.0/16"), operatortest.Subnet("red-net1", "red-vpc", "net1", 0, "10.0.1.0/24"),
		service,
	}, more...)
}

func TestServedNowhere_Service_CauseGiven(t *testing.T) {
	unchanged := func(*store.Service) {}
	flat := operatortest.Network("blue", "blue", "vpc-1", "blue-vpc", 1)
	flat.Type = "flat"
	network := operatortest.Network("blue", "blue", "vpc-1", "blue-vpc", 1)
	unnamed := operatortest.Network("blue", "blue", "default", "blue-vpc", 1)
	held := operatortest.Address("blue-vpc", "blue-net1", "10.0.1.2", operatortest.Pod("blue", "blue", "a", "", ""))
	other := operatortest.Address("blue-vpc", "blue-net1", "10.0.1.2", operatortest.Pod("blue", "blue", "b", "", ""))
	foreign := operatortest.Address("blue-vpc", "blue-net1", "10.0.1.4", operatortest.Pod("red", "red", "a", "", ""))
	theirs := operatortest.Address("red-vpc", "red-net1", "10.0.1.3", operatortest.Pod("red", "red", "a", "", ""))
	slice := func(ready bool, ips ...string) *store.EndpointSlice {
		return &store.EndpointSlice{
			Meta: operatortest.Meta("uid-slice", 0), Namespace: "blue", Name: "web-1", Service: "web",
			Endpoints: []store.Endpoint{{Addresses: operatortest.Addrs(ips...), Ready: ready, PodUID: "uid-blue-a"}},
		}
	}
	noLabel, byHand := func(s *store.Service) { s.Network = "" }, func(s *store.Service) { s.Selectorless = true }
	leaving := operatortest.VPC("blue-vpc", 1, []string{"blue"}, "10.0.0.0/16")
	leaving.EgressMasquerade, leaving.Generation = true, 2
	plain := &store.Namespace{Meta: operatortest.Meta("uid-blue", 1), Name: "blue", Tenant: "ns:blue"}
	sharing := &store.SharedService{Meta: operatortest.Meta("uid-s", 0), Name: "web", ServiceNamespace: "blue", ServiceName: "web"}
	for name, c := range map[string]struct {
		rows            []any
		reason, message string
	}{
		"its VPC's pods":           {rows(web(unchanged), network, held, slice(true, "10.0.1.2")), "", ""},
		"another VPC's pod":        {rows(web(unchanged), network, held, theirs, slice(true, "10.0.1.2", "10.0.1.3")), v1alpha1.EndpointsLeftOutReason, `10.0.1.3, which the selected pods do not hold in VPC "blue-vpc"`},
		"another pod":              {rows(web(unchanged), network, other, slice(true, "10.0.1.2")), v1alpha1.EndpointsLeftOutReason, "10.0.1.2, which the selected pods"},
		"by hand, its own":         {rows(web(byHand), network, other, slice(true, "10.0.1.2")), "", ""},
		"by hand, another's":       {rows(web(byHand), network, foreign, slice(true, "10.0.1.4")), v1alpha1.EndpointsLeftOutReason, "10.0.1.4, which is neither an address of the tenant's pods"},
		"many":                     {rows(web(unchanged), network, slice(true, "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5")), v1alpha1.EndpointsLeftOutReason, "192.0.2.3, and 2 more"},
		"not ready anyway":         {rows(web(unchanged), network, slice(false, "10.0.1.3")), "", ""},
		"outside, by a selector":   {rows(web(unchanged), network, slice(true, "203.0.113.7"), leaving), v1alpha1.EndpointsLeftOutReason, "correct the selector"},
		"outside, where it leads":  {rows(web(byHand), network, slice(true, "203.0.113.7"), leaving), "", ""},
		"outside, without egress":  {rows(web(byHand), network, slice(true, "203.0.113.7")), v1alpha1.EndpointsLeftOutReason, "spec.egress"},
		"a shared one":             {rows(web(noLabel), unnamed, slice(true, "192.0.2.1"), sharing), "", ""},
		"a known one":              {rows(web(func(s *store.Service) { s.Network, s.Name = "", "known" }), unnamed), "", ""},
		"no more a shared one":     {rows(web(noLabel), unnamed, slice(true, "192.0.2.1")), v1alpha1.EndpointsLeftOutReason, "192.0.2.1"},
		"served":                   {rows(web(unchanged), operatortest.Network("blue", "blue", "vpc-1", "blue-vpc", 1)), "", ""},
		"no such Network":          {rows(web(unchanged)), v1alpha1.NetworkNotFoundReason, `no Network "vpc-1"`},
		"another tenant's":         {rows(web(unchanged), operatortest.Network("red", "red", "vpc-1", "red-vpc", 1)), v1alpha1.NetworkNotFoundReason, `no Network "vpc-1"`},
		"another tenant's VPC":     {rows(web(unchanged), operatortest.Network("blue", "blue", "vpc-1", "red-vpc", 1)), v1alpha1.NetworkNotReadyReason, "does not allow"},
		"of another type":          {rows(web(unchanged), flat), v1alpha1.NetworkTypeReason, `"flat"`},
		"headless":                 {rows(web(func(s *store.Service) { s.ClusterIPs = nil })), "", ""},
		"on its way out":           {rows(web(func(s *store.Service) { s.Deleting = true })), "", ""},
		"of nobody's namespace":    {rows(web(func(s *store.Service) { s.Namespace = "nowhere" })), "", ""},
		"without a label, nor VPC": {rows(web(noLabel)), v1alpha1.NoDefaultNetworkReason, "may not use the default VPC"},
		"so, but a shared one":     {rows(web(noLabel), sharing), "", ""},
		"so, nor a tenant":         {rows(web(noLabel), plain), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			operatortest.New(t, c.rows...).View(func(tx store.ReadTx) {
				got := decide(tx, store.ListServices(tx)[0], Rules{DefaultVPC: "default", Shared: []string{"blue/known"}})
				if (got == nil) != (c.reason == "") || got != nil && (got.Reason != c.reason || !strings.Contains(got.Message, c.message)) {
					t.Errorf("got %+v, want %s: %s", got, c.reason, c.message)
				}
			})
		})
	}
}

func TestServicesExhausted_NoRoom_Warned(t *testing.T) {
	recorder := events.NewFakeRecorder(100)
	s := operatortest.New(t, rows(web(func(s *store.Service) { s.Network = "" }), operatortest.Network("blue", "blue", "default", "blue-vpc", 1))...)
	r := New(Options{Store: s, Events: recorder, Rules: Rules{DefaultVPC: "default"}})
	put := func(name string, age, ports int) {
		t.Helper()
		row := web(func(s *store.Service) { s.Meta, s.Name, s.Network = operatortest.Meta("uid-"+name, age), name, "" })
		for n := range ports {
			row.Ports = append(row.Ports, store.ServicePort{Protocol: "TCP", Port: uint16(n + 1)})
		}
		row.ResourceVersion = ""
		err := s.Update(func(tx store.Tx) error {
			store.DeleteService(tx, "blue", name, row.UID)
			return store.PutService(tx, row)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	warned := func(looked string) (names []string) {
		t.Helper()
		request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: looked}}
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		for name := range r.shares.notified {
			names = append(names, name.Name)
		}
		slices.Sort(names)
		return names
	}
	for _, c := range []struct {
		change    func()
		looked    string
		want      []string
		announced int
	}{
		{func() { put("old", 1, 8000) }, "old", nil, 0},
		{func() { put("middle", 2, 8000) }, "middle", nil, 0},
		{func() { put("young", 3, 1000) }, "young", []string{"young"}, 1},
		{func() {}, "young", []string{"young"}, 0},
		{func() { put("old", 1, 9000) }, "old", []string{"middle", "young"}, 1},
		{func() { put("old", 1, 10) }, "old", nil, 0},
		{func() { put("middle", 2, 16000) }, "middle", []string{"young"}, 1},
	} {
		c.change()
		if got := warned(c.looked); !slices.Equal(got, c.want) {
			t.Errorf("after %s there is no room for %v, want %v", c.looked, got, c.want)
		}
		if len(recorder.Events) != c.announced {
			t.Errorf("after %s: %d events, want %d", c.looked, len(recorder.Events), c.announced)
		}
		for len(recorder.Events) > 0 {
			if event := <-recorder.Events; !strings.HasPrefix(event, "Warning "+v1alpha1.ServicesExhaustedReason) || !strings.Contains(event, "16384") {
				t.Errorf("event %q", event)
			}
		}
	}
}

func TestServiceWarning_SameCause_Once(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	s := operatortest.New(t, rows(web(func(*store.Service) {}))...)
	r := New(Options{Store: s, Events: recorder, Rules: Rules{DefaultVPC: "default"}})
	look := func() {
		t.Helper()
		request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "web"}}
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(reasons ...string) {
		t.Helper()
		for _, reason := range reasons {
			if len(recorder.Events) == 0 {
				t.Fatalf("no event %s", reason)
			}
			if event := <-recorder.Events; !strings.HasPrefix(event, "Warning "+reason) {
				t.Errorf("event %q, want %s", event, reason)
			}
		}
		if len(recorder.Events) > 0 {
			t.Errorf("a further event: %s", <-recorder.Events)
		}
	}
	put := func(f func(store.Tx) error) {
		t.Helper()
		if err := s.Update(f); err != nil {
			t.Fatal(err)
		}
	}
	look()
	look()
	expect(v1alpha1.NetworkNotFoundReason)
	net := operatortest.Network("blue", "blue", "vpc-1", "red-vpc", 1)
	put(func(tx store.Tx) error { return store.PutNetwork(tx, net) })
	look()
	expect(v1alpha1.NetworkNotReadyReason)
	healed := *net
	healed.VPC, healed.ResourceVersion = "blue-vpc", "2"
	put(func(tx store.Tx) error { return store.PutNetwork(tx, &healed) })
	look()
	expect()
	put(func(tx store.Tx) error {
		store.DeleteNetwork(tx, "blue", "vpc-1", net.UID)
		return nil
	})
	look()
	expect(v1alpha1.NetworkNotFoundReason)
	put(func(tx store.Tx) error {
		return store.PutService(tx, web(func(s *store.Service) { s.UID = "another" }))
	})
	look()
	expect(v1alpha1.NetworkNotFoundReason)
}

func TestExternalIPs_NotGranted_Told(t *testing.T) {
	naming := func(ips ...string) *store.Service {
		return web(func(s *store.Service) { s.ExternalIPs = operatortest.Addrs(ips...) })
	}
	pool := &external.Pool{
		Meta: operatortest.Meta("uid-edge", 0), Name: "edge", ForExternalIPs: true, Ready: true, AllowedTenants: []string{"blue"},
		Ranges: []store.AddrRange{{First: operatortest.Addrs("192.0.2.1")[0], Last: operatortest.Addrs("192.0.2.9")[0]}},
	}
	for name, c := range map[string]struct {
		service *store.Service
		message string
	}{
		"none":       {naming(), ""},
		"granted":    {naming("192.0.2.1", "192.0.2.2"), ""},
		"one is not": {naming("192.0.2.1", "192.0.2.10"), "external IPs 192.0.2.10 are not served: they need a Ready ExternalPool"},
	} {
		operatortest.New(t, rows(c.service, pool)...).View(func(tx store.ReadTx) {
			got := ungranted(tx, c.service)
			if (got == nil) != (c.message == "") || got != nil && (got.Reason != v1alpha1.ExternalIPsNotGrantedReason || !strings.Contains(got.Message, c.message)) {
				t.Errorf("%s: got %+v, want %q", name, got, c.message)
			}
		})
	}
}
