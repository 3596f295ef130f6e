// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/drivers/netkit"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// A pod whose default route leads elsewhere reaches its VPC and Services through the
// VPC's interface.
func TestRoutes_NoDefaultRoute_VPCAndServicesReached(t *testing.T) {
	d := newDecided()
	d.described.NoDefaultRoute = true
	d.more = []netif.Interface{physical("net1", "198.51.100.7/24")}
	got := d.decide(t, thePod)
	if got.missing != "" || len(got.decisions) != 2 {
		t.Fatalf("answer %+v", got)
	}
	first := got.decisions[0]
	var routes []string
	for _, route := range first.Routes {
		routes = append(routes, fmt.Sprintf("%s via %s", route.Dst, route.Gateway))
	}
	want := []string{
		"10.10.0.0/16 via 10.10.1.1", "10.96.0.0/12 via 10.10.1.1", "169.254.64.1/32 via 10.10.1.1",
		"fd00:a110::1/128 via fd10:10:0:1::1", "fd10:10::/48 via fd10:10:0:1::1",
	}
	if diff := cmp.Diff(want, routes); diff != "" || len(first.Gateways) > 0 {
		t.Errorf("gateways %v (-want +got):\n%s", first.Gateways, diff)
	}
	rec, err := d.rebuild(t, netkit.Kind, ifdriver.Found{IfName: "eth0", PodUID: "p1"})
	if diff := cmp.Diff(first.Routes, rec.Routes, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); err != nil || len(rec.Gateways) > 0 || diff != "" {
		t.Errorf("the rebuilt record has the gateways %v, error %v, routes (-decided +rebuilt):\n%s", rec.Gateways, err, diff)
	}
}

// The kernel refuses a second route to one destination, whatever the interface.
func TestRoutes_SameDestinationOnTwoInterfaces_OnlyOnce(t *testing.T) {
	route := func(dst string) netif.Route { return netif.Route{Dst: netip.MustParsePrefix(dst)} }
	inside := func(own string, routes ...netif.Route) attachment.Decision {
		return attachment.Decision{
			Binding:   journal.Binding{VPC: "blue"},
			Interface: journal.Interface{Addrs: []netip.Prefix{netip.MustParsePrefix(own)}, Config: netif.Config{Routes: routes}},
		}
	}
	outside := inside("10.9.0.7/16", route("10.8.0.0/16"), netif.Route{Dst: netip.MustParsePrefix("10.7.0.0/16"), Table: 200})
	outside.Binding = journal.Binding{Outside: "DanmNet/a/ext"}
	all := []attachment.Decision{
		inside("10.0.1.5/24", route("10.96.0.0/12"), route("10.8.0.0/16"), route("10.7.0.0/16")),
		inside("10.0.2.5/24", route("10.96.0.0/12"), route("10.0.1.0/24"), route("10.9.0.0/16"), route("10.6.0.0/16")),
		outside,
	}
	separate(all)
	var got []string
	for _, d := range all {
		for _, r := range d.Routes {
			got = append(got, r.Dst.String())
		}
		got = append(got, "|")
	}
	want := []string{"10.96.0.0/12", "10.7.0.0/16", "|", "10.6.0.0/16", "|", "10.8.0.0/16", "10.7.0.0/16", "|"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The configuration of plugins comes through unchanged, and only with a claim.
func TestPluginConfig_Claimed_PassedToPlugin(t *testing.T) {
	const conf = `{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"bridge","x":18446744073709551615}]}`
	d := newDecided()
	one := physical("net1")
	one.Outside = "NetworkAttachmentDefinition/ns/lab"
	one.Delegate = &netif.Delegate{Conf: json.RawMessage(conf)}
	d.grants = []multinet.Grant{{Name: "g", Namespaces: []string{"ns"}, Plugins: []string{"bridge"}}}
	d.more = []netif.Interface{one}
	got := d.decide(t, thePod)
	if got.missing != "" || len(got.decisions) != 2 || got.decisions[1].Delegate == nil || string(got.decisions[1].Delegate.Conf) != conf {
		t.Fatalf("answer %+v", got)
	}
	d.unclaimed = true
	if got := d.decide(t, thePod); got.missing == "" {
		t.Errorf("decided without a claim: %+v", got)
	}
}

// The pod's default routes stay where they are, unless the pod requests them elsewhere.
func TestPluginRoutes_DefaultRoutePermitted_Made(t *testing.T) {
	for name, c := range map[string]struct {
		first, other bool
		change       func(*netif.Interface)
		want         ifdriver.DefaultRoutes
	}{
		"a further interface":       {false, true, func(*netif.Interface) {}, ifdriver.MissingDefaultRoutes},
		"the first interface":       {true, false, func(*netif.Interface) {}, ifdriver.OwnDefaultRoutes},
		"the one that is chosen":    {false, true, func(a *netif.Interface) { a.DefaultRoute = true }, ifdriver.OwnDefaultRoutes},
		"another one is chosen":     {false, true, func(a *netif.Interface) { a.NoDefaultRoute = true }, ifdriver.NoDefaultRoutes},
		"the first, another chosen": {true, false, func(a *netif.Interface) { a.NoDefaultRoute = true }, ifdriver.NoDefaultRoutes},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecided()
			one := physical("net1")
			if c.first {
				one = physical("eth0")
			}
			one.Outside, one.Delegate = "NetworkAttachmentDefinition/ns/lab", &netif.Delegate{
				Conf: json.RawMessage(`{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"bridge"}]}`), IP: "192.0.2.9/24",
			}
			c.change(&one)
			d.grants = []multinet.Grant{{Name: "g", Namespaces: []string{"ns"}, Plugins: []string{"bridge"}}}
			if d.more = []netif.Interface{one}; c.first {
				d.described, d.more, d.addresses = one, nil, nil
			}
			got := d.decide(t, thePod)
			if got.missing != "" {
				t.Fatalf("answer %+v", got)
			}
			delegate := got.decisions[len(got.decisions)-1].Delegate
			if delegate == nil || delegate.DefaultRoutes != c.want || !slices.Equal(delegate.Args, [][2]string{{"IP", "192.0.2.9/24"}}) {
				t.Errorf("the plugins get %+v, want %v", delegate, c.want)
			}
		})
	}
}
