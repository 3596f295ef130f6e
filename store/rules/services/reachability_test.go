// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/services"
)

func ranges(list ...string) (all []netip.Prefix) {
	for _, text := range list {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// The slices of a Service name addresses inside of a VPC, and 203.0.113.7 and 2001:db8::7 beyond
// it.
func TestBackendsOutside_Addresses_WhereEgressLeads(t *testing.T) {
	const inside, beyond, beyond6, node = "10.0.0.1:8080", "203.0.113.7:8080", "[2001:db8::7]:8080", "192.0.2.1:8080"
	http := store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080}
	named := []string{"10.0.0.1", "203.0.113.7"}
	masquerade := func(v *store.VPC, s *store.Service) { v.EgressMasquerade, s.Selectorless = true, true }
	cases := map[string]struct {
		vpc    string // another one than blue-vpc
		change func(*store.VPC, *store.Service)
		named  []string
		family ipfamily.Family
		want   []string
	}{
		"egress leads there":      {change: masquerade, named: named, want: []string{inside, beyond}},
		"over IPv6":               {change: masquerade, named: []string{"2001:db8::7"}, family: ipfamily.IPv6, want: []string{beyond6}},
		"there is no egress":      {change: func(_ *store.VPC, s *store.Service) { s.Selectorless = true }, named: named, want: []string{inside}},
		"a selector has found it": {change: func(v *store.VPC, _ *store.Service) { v.EgressMasquerade = true }, named: named, want: []string{inside}},
		"it is listed": {
			change: func(v *store.VPC, s *store.Service) {
				masquerade(v, s)
				v.EgressAllow = ranges("203.0.113.0/24")
			}, named: append(named, "198.51.100.1"), want: []string{inside, beyond},
		},
		"it is denied": {
			change: func(v *store.VPC, s *store.Service) {
				masquerade(v, s)
				v.EgressAllow, v.EgressDeny = ranges("203.0.113.7/32"), ranges("203.0.113.0/24")
			}, named: named, want: []string{inside},
		},
		"nobody holds it in the VPC":    {change: masquerade, named: []string{"10.0.0.9"}},
		"it is a Service's":             {change: masquerade, named: []string{"10.96.0.10"}},
		"it is an external address":     {change: masquerade, named: []string{"203.0.113.100"}},
		"it is the default VPC's":       {change: masquerade, named: []string{"10.244.0.7"}},
		"it is link-local, or loopback": {change: masquerade, named: []string{"169.254.169.254", "127.0.0.1", "224.0.0.1", "0.0.0.0"}},
		"it is a node's":                {change: masquerade, named: []string{"192.0.2.1", "192.0.2.100"}},
		"a node's, of the default VPC":  {vpc: "default", change: masquerade, named: []string{"192.0.2.1", "192.0.2.100"}, want: []string{node, "192.0.2.100:8080"}},
		"a pod's on its node's network": {
			vpc:    "default",
			change: func(v *store.VPC, _ *store.Service) { v.EgressMasquerade = true },
			named:  []string{"192.0.2.1"},
			want:   []string{node},
		},
		"a pod's with another node's": {vpc: "default", change: func(v *store.VPC, _ *store.Service) { v.EgressMasquerade = true }, named: []string{"192.0.2.2"}},
		"nodes are denied": {
			vpc:    "default",
			change: func(v *store.VPC, _ *store.Service) { v.EgressMasquerade, v.EgressDeny = true, ranges("192.0.2.0/24") },
			named:  []string{"192.0.2.1"},
		},
		"the default VPC has no egress": {vpc: "default", change: func(*store.VPC, *store.Service) {}, named: []string{"192.0.2.1"}},
		"of the node, as the slices say": {
			change: func(v *store.VPC, s *store.Service) { masquerade(v, s); s.NodeLocal = true },
			named:  named,
			want:   []string{inside, beyond},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			vpcs := map[string]*store.VPC{
				"blue-vpc": operatortest.VPC("blue-vpc", 2, []string{"blue"}, "10.0.0.0/16"), "default": operatortest.VPC("default", 1, []string{"*"}, "10.244.0.0/16"),
			}
			at, web := site, service("blue-a", "web", "", "10.96.0.1")
			if c.vpc != "" {
				at.VPC = c.vpc
			}
			c.change(vpcs[at.VPC], web)
			s := operatortest.New(
				t,
				vpcs["blue-vpc"],
				vpcs["default"],
				web,
				slice("a", http, endpoint(true, false, c.named...)),
				held("10.0.0.1", "node-1"),
				&store.Node{Meta: operatortest.Meta("uid-n2", 0), Name: "node-2", Addresses: operatortest.Addrs("192.0.2.2")},
				namespace("blue-a", "blue"),
				&store.ServiceCIDR{Meta: operatortest.Meta("uid-cidr", 0), Name: "kubernetes", Prefixes: ranges("10.96.0.0/16")},
				&store.Node{
					Meta:         operatortest.Meta("uid-n", 0),
					Name:         "node-1",
					Addresses:    operatortest.Addrs("192.0.2.1"),
					AllAddresses: operatortest.Addrs("192.0.2.1", "192.0.2.100"),
				},
				&external.Address{Meta: operatortest.Meta("uid-e", 0), IP: netip.MustParseAddr("203.0.113.100")},
			)
			s.View(func(tx store.ReadTx) {
				var got []string
				for _, b := range verdict(tx, at, web, http80).Reached(tx, "node-1", http80, max(c.family, ipfamily.IPv4)) {
					got = append(got, b.String())
					if b.Outside != (b.String() != inside) {
						t.Errorf("%s is outside: %v", b, b.Outside)
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("backends %v, want %v", got, c.want)
				}
				if left := len(services.LeftOut(tx, at, web)); left != len(c.named)-len(c.want) {
					t.Errorf("%d are left out of %d, and %d count", left, len(c.named), len(c.want))
				}
			})
		})
	}
}

// TestBackendsOutside_NodeReportsOthersAddress_PodsServed: an older node reports the address of a younger one.
// Its kubelet alone says so, and the pods there go on to serve.
func TestBackendsOutside_NodeReportsOthersAddress_PodsServed(t *testing.T) {
	vpc, web := operatortest.VPC("default", 1, []string{"*"}, "10.244.0.0/16"), service("blue-a", "web", "", "10.96.0.1")
	vpc.EgressMasquerade = true
	node := func(name string, age int, ips ...string) *store.Node {
		return &store.Node{Meta: operatortest.Meta("uid-"+name, age), Name: name, Addresses: operatortest.Addrs(ips...), AllAddresses: operatortest.Addrs(ips...)}
	}
	http := store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080}
	s := operatortest.New(t, vpc, web, namespace("blue-a", "blue"), slice("a", http, endpoint(true, false, "192.0.2.1")),
		node("node-1", 5, "192.0.2.1"), node("thief", 1, "192.0.2.9", "192.0.2.1"))
	at := site
	at.VPC = "default"
	s.View(func(tx store.ReadTx) {
		if got := verdict(tx, at, web, http80).Reached(tx, "node-1", http80, ipfamily.IPv4); len(got) != 1 || got[0].String() != "192.0.2.1:8080" {
			t.Errorf("the Service leads to %v", got)
		}
	})
}

// A node that is asked from outside sends on to none that could only send it back there.
func TestNodePort_BackendOutside_NotUsed(t *testing.T) {
	http := store.ServicePort{Name: "http", Protocol: "TCP", Port: 8080}
	web, vpc := service("blue-a", "web", "", "10.96.0.1"), operatortest.VPC("blue-vpc", 2, []string{"blue"}, "10.0.0.0/16")
	web.Selectorless, vpc.EgressMasquerade = true, true
	on := func(node, ip string) store.Endpoint {
		e := endpoint(true, false, ip)
		e.Node = node
		return e
	}
	s := operatortest.New(t, vpc, web, namespace("blue-a", "blue"), held("10.0.0.1", "node-1"), held("10.0.0.2", "node-2"), slice("a", http,
		on("node-1", "10.0.0.1"), on("node-2", "10.0.0.2"), on("node-1", "203.0.113.7"), on("node-2", "203.0.113.8"), on("node-3", "203.0.113.9")))
	s.View(func(tx store.ReadTx) {
		spread := verdict(tx, services.Site{VPC: "blue-vpc", DefaultVPC: "default"}, web, http80).Spread(tx, "node-1", http80, ipfamily.IPv4)
		if len(spread.Here) != 1 || spread.Here[0].String() != "10.0.0.1:8080" || len(spread.Elsewhere) != 1 || spread.Elsewhere["node-2"] != 1 {
			t.Errorf("here %v, elsewhere %v", spread.Here, spread.Elsewhere)
		}
	})
}
