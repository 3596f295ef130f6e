// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

func TestLoadBalancerWish_Service_AddressesOrReason(t *testing.T) {
	balancer := func(change func(*store.Service)) *store.Service {
		return web(func(s *store.Service) {
			s.LoadBalancer = store.LoadBalancerVPC
			change(s)
		})
	}
	asking := func(ips string) *store.Service { return balancer(func(s *store.Service) { s.AskedIPs = ips }) }
	dual := func(s *store.Service) { s.ClusterIPs = operatortest.Addrs("10.96.0.7", "fd96::7") }
	any4 := balancer(func(*store.Service) {})
	network := operatortest.Network("blue", "blue", "vpc-1", "blue-vpc", 1)
	foreign := operatortest.Network("blue", "blue", "vpc-1", "red-vpc", 1)
	unready := operatortest.VPC("blue-vpc", 1, []string{"blue"}, "10.0.0.0/16")
	unready.Ready = false
	plain := &store.Namespace{Meta: operatortest.Meta("uid-blue", 1), Name: "blue", Tenant: "ns:blue"}
	held := func(vpc, ip string, set ...string) *store.Address {
		return operatortest.ServiceAddress(vpc, vpc+"-lb", ip, any4, set...)
	}
	for name, c := range map[string]struct {
		service        *store.Service
		rows           []any
		asks           string
		keeps, drops   string
		reason, saying string
	}{
		"nothing yet":                       {any4, []any{network}, "any IPv4", "", "", "", ""},
		"both families":                     {balancer(dual), []any{network}, "any IPv4 and IPv6", "", "", "", ""},
		"one by number":                     {asking(" 10.0.8.9 "), []any{network}, "10.0.8.9 IPv4", "", "", "", ""},
		"two by number":                     {balancer(func(s *store.Service) { dual(s); s.AskedIPs = "fd10::8:9,10.0.8.9" }), []any{network}, "fd10::8:9 10.0.8.9 IPv4 and IPv6", "", "", "", ""},
		"what it has":                       {any4, []any{network, held("blue-vpc", "10.0.8.9")}, "any IPv4", "10.0.8.9", "", "", ""},
		"another than it has":               {asking("10.0.8.8"), []any{network, held("blue-vpc", "10.0.8.9")}, "10.0.8.8 IPv4", "", "10.0.8.9", "", ""},
		"one family less than it has":       {any4, []any{network, held("blue-vpc", "10.0.8.9", "fd10::8:9")}, "any IPv4", "", "10.0.8.9", "", ""},
		"one of another VPC":                {any4, []any{network, held("red-vpc", "10.0.8.9")}, "any IPv4", "", "10.0.8.9", "", ""},
		"nothing any more":                  {web(func(*store.Service) {}), []any{network, held("blue-vpc", "10.0.8.9")}, "", "", "10.0.8.9", "", ""},
		"its predecessor's":                 {balancer(func(s *store.Service) { s.UID = "successor" }), []any{network, held("blue-vpc", "10.0.8.9")}, "any IPv4", "", "", "", ""},
		"while it goes":                     {balancer(func(s *store.Service) { s.Deleting = true }), []any{network, held("blue-vpc", "10.0.8.9")}, "", "10.0.8.9", "", "", ""},
		"without its Network":               {any4, []any{held("blue-vpc", "10.0.8.9")}, "", "", "10.0.8.9", "", ""},
		"while its VPC is not ready":        {any4, []any{unready, network, held("blue-vpc", "10.0.8.9")}, "", "10.0.8.9", "", "", ""},
		"of a VPC that is not its":          {any4, []any{foreign, held("red-vpc", "10.0.8.9")}, "", "", "10.0.8.9", "", ""},
		"without any VPC":                   {balancer(func(s *store.Service) { s.Network = "" }), nil, "", "", "", "", ""}, // decide says so
		"without any VPC, nor a tenant":     {balancer(func(s *store.Service) { s.Network = "" }), []any{plain}, "", "", "", v1alpha1.NoDefaultNetworkReason, "name a Network"},
		"in a place that there is not":      {balancer(func(s *store.Service) { s.LoadBalancer = "Moon" }), []any{network, held("blue-vpc", "10.0.8.9")}, "", "", "10.0.8.9", v1alpha1.LoadBalancerInvalidReason, `is "Moon": it may be VPC (the default) or External`},
		"by a word":                         {asking("web"), []any{network}, "", "", "", v1alpha1.LoadBalancerInvalidReason, `"web"`},
		"two of a family":                   {asking("10.0.8.8,10.0.8.9"), []any{network}, "", "", "", v1alpha1.LoadBalancerInvalidReason, "more than one IPv4 address"},
		"of a family that it does not have": {asking("fd10::8:9"), []any{network}, "", "", "", v1alpha1.LoadBalancerInvalidReason, "has IPv4 only"},
		"while every VPC shares it": {
			balancer(func(s *store.Service) { s.Network = "" }),
			[]any{operatortest.Network("blue", "blue", "default", "blue-vpc", 1), &store.SharedService{Meta: operatortest.Meta("uid-s", 0), Name: "web", ServiceNamespace: "blue", ServiceName: "web"}},
			"", "", "", v1alpha1.LoadBalancerInvalidReason, "every VPC shares this Service",
		},
	} {
		t.Run(name, func(t *testing.T) {
			operatortest.New(t, rows(c.service, c.rows...)...).View(func(tx store.ReadTx) {
				w := desiredOf(tx, c.service, Rules{DefaultVPC: "default"})
				asks := ""
				if w.request != nil {
					var words []string
					for _, ip := range w.request.IPs {
						words = append(words, ip.String())
					}
					if len(words) == 0 {
						words = []string{"any"}
					}
					asks = strings.Join(append(words, w.request.Families.String()), " ")
					if w.request.VPC != "blue-vpc" || w.request.Holder.UID != c.service.UID {
						t.Errorf("asks for %+v", w.request)
					}
				}
				if asks != c.asks || listed(w.keep) != c.keeps || listed(w.drop) != c.drops {
					t.Errorf("asks %q, keeps %q, drops %q; want %q, %q, %q", asks, listed(w.keep), listed(w.drop), c.asks, c.keeps, c.drops)
				}
				if (w.refusal == nil) != (c.reason == "") || w.refusal != nil && (w.refusal.Reason != c.reason || !strings.Contains(w.refusal.Message, c.saying)) {
					t.Errorf("refusal %+v, want %s: %s", w.refusal, c.reason, c.saying)
				}
			})
		})
	}
}

func listed(h holdings) string {
	var words []string
	for _, ip := range h.ips() {
		words = append(words, ip.String())
	}
	return strings.Join(words, " ")
}

// TestLoadBalancerWish_TwoOfFamily_OneKept: two operators at once may have claimed one each.
func TestLoadBalancerWish_TwoOfFamily_OneKept(t *testing.T) {
	service := web(func(s *store.Service) { s.LoadBalancer = store.LoadBalancerExternal })
	pool := &external.Pool{Meta: operatortest.Meta("pool", 0), Name: "edge", Ready: true, AllowedTenants: []string{"*"}, Ranges: []store.AddrRange{
		{First: netip.MustParseAddr("192.0.2.0"), Last: netip.MustParseAddr("192.0.2.255")},
	}}
	claimed := func(ip string, age int) *external.Address {
		return &external.Address{Meta: operatortest.Meta(ip, age), IP: netip.MustParseAddr(ip), Pool: "edge", Holder: service.AsHolder()}
	}
	inProgress := claimed("192.0.2.1", 0)
	inProgress.UID = ""
	operatortest.New(t, rows(service, pool, claimed("192.0.2.2", 5), claimed("192.0.2.3", 2), inProgress)...).View(func(tx store.ReadTx) {
		if w := desiredOf(tx, service, Rules{DefaultVPC: "default"}); listed(w.keep) != "192.0.2.3" || listed(w.drop) != "192.0.2.2" {
			t.Errorf("keeps %s, drops %s", listed(w.keep), listed(w.drop))
		}
	})
}
