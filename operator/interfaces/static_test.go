// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// noRanges lets a network leave all addresses to the IPAM of the nodes' file.
func noRanges(n *multinet.Network) { n.V4, n.V6 = multinet.Range{}, multinet.Range{} }

// routing returns the routing of a desired attachment in words: routes as destination, gateway and table, and
// rules as source and table.
func routing(w pod.Desired) (words []string) {
	for _, r := range w.Link.Routes {
		gateway := "link"
		if r.Gateway.IsValid() {
			gateway = r.Gateway.String()
		}
		words = append(words, fmt.Sprintf("%s by %s in %d", r.Dst, gateway, r.Table))
	}
	for _, r := range w.Link.Rules {
		words = append(words, fmt.Sprintf("from %s to %d", r.From, r.Table))
	}
	return words
}

// TestStaticType_AddressRequest_IPAMOrFile follows DANM: its IPAM takes the place of the file's if the
// pod requests the address "none", or an address of a family that the network has a range of.
func TestStaticType_AddressRequest_IPAMOrFile(t *testing.T) {
	onlyV6 := func(n *multinet.Network) { n.V4 = multinet.Range{} }
	for _, tc := range []struct {
		name, request string
		network       func(*multinet.Network)
		// inject: the file's IPAM is not called. want are the addresses of Alioth.
		inject bool
		want   string
	}{
		{"nothing is requested", ``, nil, false, "[] "},
		{"none", `,"ip":"none"`, nil, true, "[] "},
		{"none of IPv6", `,"ip6":"none"`, nil, true, "[] "},
		{"none, in a network without a range", `,"ip":"none","ip6":"none"`, noRanges, true, "[] "},
		{"none of IPv4, one of IPv6", `,"ip":"none","ip6":"dynamic"`, nil, true, "[] IPv6"},
		{"a dynamic one", `,"ip":"dynamic"`, nil, true, "[] IPv4"},
		{"one by its number", `,"ip6":"fd20::7"`, nil, true, "[fd20::7] "},
		{"a dynamic one, in a network without a range", `,"ip":"dynamic"`, noRanges, false, "[] "},
		{"dynamic ones of both families, and a range of one", `,"ip":"dynamic","ip6":"dynamic"`, onlyV6, true, "[] IPv4 and IPv6"},
		// The operator's IPAM refuses these two: no file gives an address by its number.
		{"one by its number, in a network without a range", `,"ip":"192.0.2.7"`, noRanges, false, "[192.0.2.7] "},
		{"one by its number and a dynamic one, without ranges", `,"ip":"192.0.2.7","ip6":"dynamic"`, noRanges, false, "[192.0.2.7] "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			static := danmNet(
				"static",
				append([]func(*multinet.Network){func(n *multinet.Network) { n.Type, n.NetworkID = "bridge", "lab0" }}, nonNilNet(tc.network)...)...)
			list := `[{"vpc":"default"},{"network":"static"` + tc.request + `}]`
			desired, refusal := decide(t, list, world(static, grant("g", ofNamespace("a"))), ofNobody(""))
			if refusal != "" || len(desired) != 2 {
				t.Fatalf("%v, refused with %q", short(desired), refusal)
			}
			families := ""
			if desired[1].Families.Count() > 0 {
				families = desired[1].Families.String()
			}
			if got := fmt.Sprintf("%v %s", desired[1].IPs, families); got != tc.want || desired[1].Delegate.File.Inject != tc.inject {
				t.Errorf("addresses %q, in place of the file's IPAM: %t; want %q, %t", got, desired[1].Delegate.File.Inject, tc.want, tc.inject)
			}
		})
	}
}

func nonNilNet(f func(*multinet.Network)) []func(*multinet.Network) {
	if f == nil {
		return nil
	}
	return []func(*multinet.Network){f}
}

// TestStaticType_Routes_AsOwnDrivers: as for Alioth's own drivers, where the operator knows the address.
// Otherwise the sources of rules stand for the addresses that the plugins will choose.
func TestStaticType_Routes_AsOwnDrivers(t *testing.T) {
	lab := danmNet("lab", withRoute("10.30.0.0/16", "10.20.0.1"), withRoute("fd30::/64", "fd20::1"), func(n *multinet.Network) {
		n.Type, n.NetworkID, n.Table = "bridge", "lab0", 78
	})
	bare := danmNet("bare", noRanges, func(n *multinet.Network) { n.Type, n.NetworkID, n.Table = "bridge", "lab1", 78 })
	noTable := danmNet("no-table", func(n *multinet.Network) { n.Type, n.NetworkID = "bridge", "lab2" })
	out := danmNet("out", withRoute("0.0.0.0/0", "10.20.0.1"), func(n *multinet.Network) { n.Type, n.NetworkID = "bridge", "lab3" })
	rows := world(lab, bare, noTable, out, danmNet("own", func(n *multinet.Network) { n.Table = 78 }), grant("g", ofNamespace("a")))
	for _, tc := range []struct {
		name, list string
		want       []string // of the last interface
		refusal    string
	}{
		{
			"Alioth's addresses", `[{"vpc":"default"},{"network":"lab","ip":"dynamic","proutes":{"10.9.0.0/16":"10.20.0.2"}}]`,
			[]string{"10.30.0.0/16 by 10.20.0.1 in 0", "10.20.0.0/24 by link in 78", "10.9.0.0/16 by 10.20.0.2 in 78", "from 0.0.0.0/32 to 78"},
			"",
		},
		{
			"both families", `[{"vpc":"default"},{"network":"lab","ip":"dynamic","ip6":"dynamic","proutes6":{"fd90::/64":"fd20::2"}}]`,
			[]string{"10.30.0.0/16 by 10.20.0.1 in 0", "fd30::/64 by fd20::1 in 0", "fd20::/64 by link in 78", "fd90::/64 by fd20::2 in 78", "from ::/128 to 78"},
			"",
		},
		{"none", `[{"vpc":"default"},{"network":"lab","ip":"none"}]`, nil, ""},
		{
			"the addresses of the file's IPAM", `[{"vpc":"default"},{"network":"lab","proutes":{"10.9.0.0/16":"192.0.2.2"}}]`,
			[]string{"10.30.0.0/16 by 10.20.0.1 in 0", "fd30::/64 by fd20::1 in 0", "10.9.0.0/16 by 192.0.2.2 in 78", "from 0.0.0.0/32 to 78"},
			"",
		},
		{
			"a network without ranges", `[{"vpc":"default"},{"network":"bare","ip":"dynamic","proutes":{"10.9.0.0/16":"192.0.2.2"},"proutes6":{"fd90::/64":"fd20::2"}}]`,
			[]string{"10.9.0.0/16 by 192.0.2.2 in 78", "fd90::/64 by fd20::2 in 78", "from 0.0.0.0/32 to 78", "from ::/128 to 78"},
			"",
		},
		{
			"the table of another interface", `[{"vpc":"default"},{"network":"own","ip":"dynamic","proutes":{"10.9.0.0/16":"10.20.0.2"}},{"network":"bare","proutes":{"10.9.0.0/16":"192.0.2.2"}}]`,
			[]string{"10.9.0.0/16 by 192.0.2.2 in 79", "from 0.0.0.0/32 to 79"},
			"",
		},
		{"no table", `[{"vpc":"default"},{"network":"no-table","proutes":{"10.9.0.0/16":"192.0.2.2"}}]`, nil, "rt_tables"},
		{"no address of the family", `[{"vpc":"default"},{"network":"lab","ip6":"dynamic","proutes":{"10.9.0.0/16":"10.20.0.2"}}]`, nil, "needs an address of its family"},
		{"no address at all", `[{"vpc":"default"},{"network":"lab","ip":"none","proutes":{"10.9.0.0/16":"10.20.0.2"}}]`, nil, "needs an address of its family"},
		{"a gateway outside of the range", `[{"vpc":"default"},{"network":"lab","ip":"dynamic","proutes":{"10.9.0.0/16":"192.0.2.2"}}]`, nil, "not in 10.20.0.0/24"},
		{"a second default route", `[{"vpc":"default"},{"network":"out"}]`, nil, v1alpha1.RouteConflictReason},
		{"none on the first interface", `[{"network":"lab","ip":"none"},{"vpc":"default"}]`, nil, "the first interface of a pod needs an address"},
		{"the file's IPAM on the first interface", `[{"network":"bare"}]`, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			desired, refusal := decide(t, tc.list, rows, ofNobody(""))
			if tc.refusal != "" {
				if !strings.Contains(refusal, tc.refusal) {
					t.Errorf("%v, refused with %q, want %q", short(desired), refusal, tc.refusal)
				}
				return
			}
			if refusal != "" || len(desired) == 0 {
				t.Fatalf("refused with %q", refusal)
			}
			last := desired[len(desired)-1]
			if diff := cmp.Diff(tc.want, routing(last)); diff != "" || last.Kind != netif.KindDelegate {
				t.Errorf("kind %s, routing (-want +got):\n%s", last.Kind, diff)
			}
		})
	}
}

// TestStaticType_DefaultRoute_JudgedByNodes: the operator knows neither the addresses
// nor the routes that the plugins will make.
func TestStaticType_DefaultRoute_JudgedByNodes(t *testing.T) {
	lab := danmNet("lab", noRanges, func(n *multinet.Network) { n.Type, n.NetworkID = "bridge", "lab0" })
	rows := world(lab, definition("a", "net", annotations.Target{Kind: annotations.TargetDanmNet, Name: "lab"}), grant("g", ofNamespace("a")))
	for selections, want := range map[string][]string{
		`[{"name":"net","default-route":["192.0.2.1"]}]`: {"0.0.0.0/0 by 192.0.2.1 in 0"},
		`[{"name":"net","default-route":[]}]`:            nil,
	} {
		desired, refusal := decide(t, "", rows, ofNobody(selections))
		if refusal != "" || len(desired) != 2 || !desired[0].NoDefaultRoute || !slices.Equal(routing(desired[1]), want) {
			t.Errorf("%s: %+v, refused with %q", selections, desired, refusal)
		}
	}
}

// A network of DANM with a static type: nodes have its configuration, and Alioth its
// addresses.
func TestStaticType_NoGrant_Refused(t *testing.T) {
	static := danmNet("static", func(n *multinet.Network) { n.Type, n.NetworkID, n.HostDevice = "bridge", "lab0", "" })
	shared := network(multinet.KindClusterNetwork, "", "shared", func(n *multinet.Network) { n.Type, n.NetworkID = "bridge", "lab1" })
	one := func(networks ...string) []any {
		return []any{grant("g", func(g *multinet.Grant) { g.Networks = networks })}
	}
	for _, tc := range []struct {
		name, list string
		rows       []any
		want, text string
	}{
		{"with an address", `[{"vpc":"default"},{"network":"static","ip":"dynamic"}]`, one("DanmNet/a/static"), `{"networkID":"lab0","type":"bridge","plugins":["bridge"],"ipam":["host-local"],"inject":true}`, ""},
		{"a requested address", `[{"vpc":"default"},{"network":"static","ip":"10.20.0.200"}]`, one("DanmNet/a/static"), `{"networkID":"lab0","type":"bridge","plugins":["bridge"],"ipam":["host-local"],"inject":true}`, ""},
		{"the file's own IPAM", `[{"vpc":"default"},{"network":"static"}]`, []any{grant("g", ofNamespace("a"))}, `{"networkID":"lab0","type":"bridge","plugins":["bridge"],"ipam":["host-local"]}`, ""},
		{"a ClusterNetwork", `[{"vpc":"default"},{"clusterNetwork":"shared"}]`, one("ClusterNetwork/shared"), `{"networkID":"lab1","type":"bridge","plugins":["bridge"],"ipam":["host-local"]}`, ""},
		{"a namespace grants no ClusterNetwork", `[{"vpc":"default"},{"clusterNetwork":"shared"}]`, []any{grant("g", ofNamespace("a", ""))}, "", "no DelegationGrant"},
		{"a plugin in another case", `[{"vpc":"default"},{"network":"static"}]`, []any{
			grant("g", func(g *multinet.Grant) { g.Namespaces, g.Plugins = []string{"a"}, []string{"Bridge"} }),
		}, `{"networkID":"lab0","type":"bridge","plugins":["Bridge"],"ipam":["host-local"]}`, ""},
		{"another plugin", `[{"vpc":"default"},{"network":"static"}]`, []any{
			grant("g", func(g *multinet.Grant) { g.Namespaces, g.Plugins = []string{"a"}, []string{"macvlan"} }),
		}, "", "with that plugin"},
		{"no grant", `[{"vpc":"default"},{"network":"static"}]`, one("a/static", "TenantNetwork/a/static"), "", "no DelegationGrant"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			desired, refusal := decide(t, tc.list, world(append(tc.rows, static, shared)...), ofNobody(""))
			if tc.want == "" {
				if !strings.Contains(refusal, tc.text) || refusal == "" {
					t.Errorf("%v, refused with %q", short(desired), refusal)
				}
				return
			}
			if refusal != "" || len(desired) != 2 || desired[1].Kind != netif.KindDelegate || fileOf(t, desired[1]) != tc.want {
				t.Errorf("%+v, refused with %q", desired, refusal)
			}
		})
	}
	rows := world(append(one("DanmNet/a/static"), static)...)
	if desired, refusal := decide(t, `[{"vpc":"v"},{"network":"static"}]`, rows); !strings.Contains(refusal, "pods of tenants") {
		t.Errorf("a tenant's pod gets %v, %q", short(desired), refusal)
	}
}
