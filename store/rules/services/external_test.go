// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/services"
)

func pool(name string, change func(*external.Pool), first, last string) *external.Pool {
	row := &external.Pool{
		Meta: operatortest.Meta("uid-"+name, 0), Name: name, ForExternalIPs: true, Ready: true, AllowedTenants: []string{"blue"},
		Ranges: []store.AddrRange{{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}},
	}
	if change != nil {
		change(row)
	}
	return row
}

func TestExternalIPs_Pools_OnlyGrantedOnes(t *testing.T) {
	naming := func(namespace, name string, age int, ips ...string) *store.Service {
		row := service(namespace, name, "", "10.96.0.1")
		row.Meta, row.ExternalIPs = operatortest.Meta(row.UID, age), operatortest.Addrs(ips...)
		return row
	}
	mine := naming("blue-a", "web", 5, "192.0.2.2", "192.0.2.1", "198.51.100.1", "2001:db8::1")
	leaving := naming("red-a", "web", 1, "192.0.2.1")
	leaving.Deleting = true
	edge := pool("edge", nil, "192.0.2.0", "192.0.2.9")
	both := func(p *external.Pool) { p.AllowedTenants = []string{"blue", "red"} }
	for name, c := range map[string]struct {
		rows []any
		want []string
	}{
		"without a pool":                  {nil, nil},
		"what is in a pool":               {[]any{edge}, []string{"192.0.2.2", "192.0.2.1"}},
		"what is in two":                  {[]any{edge, pool("six", nil, "2001:db8::", "2001:db8::f")}, []string{"192.0.2.2", "192.0.2.1", "2001:db8::1"}},
		"nothing of another tenant's":     {[]any{pool("edge", func(p *external.Pool) { p.AllowedTenants = []string{"red"} }, "192.0.2.0", "192.0.2.9")}, nil},
		"nothing of nobody's":             {[]any{pool("edge", func(p *external.Pool) { p.AllowedTenants = nil }, "192.0.2.0", "192.0.2.9")}, nil},
		"nothing for load balancers":      {[]any{pool("edge", func(p *external.Pool) { p.ForExternalIPs = false }, "192.0.2.0", "192.0.2.9")}, nil},
		"nothing that is not ready":       {[]any{pool("edge", func(p *external.Pool) { p.Ready = false }, "192.0.2.0", "192.0.2.9")}, nil},
		"nothing that goes":               {[]any{pool("edge", func(p *external.Pool) { p.Deleting = true }, "192.0.2.0", "192.0.2.9")}, nil},
		"nothing that is held":            {[]any{edge, &external.Address{IP: netip.MustParseAddr("192.0.2.1")}}, []string{"192.0.2.2"}},
		"not an older one's":              {[]any{pool("edge", both, "192.0.2.0", "192.0.2.9"), naming("red-a", "web", 4, "192.0.2.1")}, []string{"192.0.2.2"}},
		"before a younger one":            {[]any{pool("edge", both, "192.0.2.0", "192.0.2.9"), naming("red-a", "web", 6, "192.0.2.1")}, []string{"192.0.2.2", "192.0.2.1"}},
		"with the tenant's own":           {[]any{edge, naming("blue-b", "web", 4, "192.0.2.1")}, []string{"192.0.2.2", "192.0.2.1"}},
		"though one names it who may not": {[]any{edge, naming("red-a", "web", 4, "192.0.2.1")}, []string{"192.0.2.2", "192.0.2.1"}},
		"with an older one of its tenant": {[]any{pool("edge", both, "192.0.2.0", "192.0.2.9"), naming("red-a", "web", 4, "192.0.2.1"), naming("blue-b", "web", 3, "192.0.2.1")}, []string{"192.0.2.2", "192.0.2.1"}},
		"after one that goes":             {[]any{pool("edge", both, "192.0.2.0", "192.0.2.9"), leaving}, []string{"192.0.2.2", "192.0.2.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			rows := append([]any{namespace("blue-a", "blue"), namespace("blue-b", "blue"), namespace("red-a", "red"), mine}, c.rows...)
			operatortest.New(t, rows...).View(func(tx store.ReadTx) {
				var got []string
				for _, ip := range services.ExternalIPs(tx, mine) {
					got = append(got, ip.String())
				}
				slices.Sort(got)
				slices.Sort(c.want)
				if !slices.Equal(got, c.want) {
					t.Errorf("got %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestReadyOn_Backends_NodesOfReadyOnes(t *testing.T) {
	http := store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080}
	web := service("blue-a", "web", "", "10.96.0.1")
	operatortest.New(
		t,
		web,
		held("10.0.0.1", "node-1"),
		held("10.0.0.2", "node-2"),
		held("10.0.0.3", "node-3"),
		operatortest.ServiceAddress("blue-vpc", "lb", "10.0.8.1", web),
		slice(
			"a",
			http,
			endpoint(true, false, "10.0.0.1", "10.0.0.9", "10.0.8.1"),
			endpoint(false, true, "10.0.0.2"),
		),
		slice("b", http, endpoint(true, false, "10.0.0.3")),
	).View(func(tx store.ReadTx) {
		got := services.ReadyOn(tx, services.Site{VPC: "blue-vpc", DefaultVPC: "default"}, web)
		if len(got) != 2 || !got["node-1"] || !got["node-3"] {
			t.Errorf("got %v, want node-1 and node-3", got)
		}
	})
}
