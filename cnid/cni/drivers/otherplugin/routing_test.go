// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package otherplugin_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// lab returns the file of a network of DANM: a bridge, whose IPAM gives 192.0.2.2 and the routes.
func (r *rig) lab(routes string) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":"storage","type":"bridge","bridge":"br7",
		"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"192.0.2.0/24"}]],"routes":[%s]}}`, filepath.Join(r.dir, "leases"), routes)
}

// static returns an interface in that network, as the operator decides it: with routes and rules.
func (r *rig) static(ifName string, inject bool) ifdriver.Spec {
	spec := r.spec(&ifdriver.Delegate{
		File: &netif.DelegateFile{NetworkID: "lab", Type: "bridge", Plugins: []string{"bridge"}, IPAM: []string{"host-local"}, Inject: inject},
	})
	spec.IfName = ifName
	return spec
}

func route(dst, gateway string, table int) netif.Route {
	r := netif.Route{Dst: netip.MustParsePrefix(dst), Table: table}
	if gateway != "" {
		r.Gateway = netip.MustParseAddr(gateway)
	}
	return r
}

// rule leads to the table of the network.
func rule(from string) netif.Rule {
	return netif.Rule{From: netip.MustParsePrefix(from), Table: 78}
}

// ways returns the pod's routes and rules from plugins or from the driver, sorted. It leaves out
// the kernel's own.
func (r *rig) ways(t *testing.T) (words []string) {
	t.Helper()
	r.pod.Do(t, func() error {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{}, netlink.RT_FILTER_TABLE)
		rules, failed := netlink.RuleList(netlink.FAMILY_ALL)
		for _, one := range routes {
			if one.Protocol == unix.RTPROT_KERNEL {
				continue
			}
			link, err := netlink.LinkByIndex(one.LinkIndex)
			if err != nil {
				return err
			}
			words = append(words, strings.TrimSpace(fmt.Sprintf("%s by %v on %s in %d", one.Dst, one.Gw, link.Attrs().Name, one.Table)))
		}
		for _, one := range rules {
			if one.Src != nil {
				words = append(words, fmt.Sprintf("from %s to %d", one.Src, one.Table))
			}
		}
		return errors.Join(err, failed)
	})
	slices.Sort(words)
	return words
}

// DANM's user guide: routes of a network are in the main table. Routes that a pod requests are in
// the table of the network, for packets of the interface's address.
func TestStaticIPAM_NetworkRoutes_Set(t *testing.T) {
	proutes := func(spec *ifdriver.Spec) {
		spec.Routes = append(spec.Routes, route("10.9.0.0/16", "192.0.2.1", 78))
		spec.Rules = append(spec.Rules, rule("0.0.0.0/32"))
	}
	for name, c := range map[string]struct {
		// routes are the routes of the file's IPAM; inject replaces it.
		routes string
		inject bool
		change func(*ifdriver.Spec)
		addrs  []string
		want   []string
	}{
		"of the network, by the file's address": {
			``, false, func(spec *ifdriver.Spec) { spec.Routes = []netif.Route{route("198.51.100.0/24", "192.0.2.1", 0)} },
			[]string{"192.0.2.2/24"},
			[]string{"198.51.100.0/24 by 192.0.2.1 on net1 in 254"},
		},
		"of the network and of the file": {
			`{"dst":"198.51.100.0/24","gw":"192.0.2.1"}`, false, func(spec *ifdriver.Spec) { spec.Routes = []netif.Route{route("198.51.100.0/24", "192.0.2.1", 0)} },
			[]string{"192.0.2.2/24"},
			[]string{"198.51.100.0/24 by 192.0.2.1 on net1 in 254"},
		},
		"of a family without an address": {
			``, false, func(spec *ifdriver.Spec) { spec.Routes = []netif.Route{route("2001:db8:1::/64", "2001:db8::1", 0)} },
			[]string{"192.0.2.2/24"},
			nil,
		},
		"of a pod that is the gateway": {
			``, false, func(spec *ifdriver.Spec) { spec.Routes = []netif.Route{route("198.51.100.0/24", "192.0.2.2", 0)} },
			[]string{"192.0.2.2/24"},
			nil,
		},
		"of the pod, by the file's address": {
			``, false, proutes,
			[]string{"192.0.2.2/24"},
			[]string{"10.9.0.0/16 by 192.0.2.1 on net1 in 78", "192.0.2.0/24 by <nil> on net1 in 78", "from 192.0.2.2/32 to 78"},
		},
		"by Alioth's addresses": {
			`{"dst":"203.0.113.0/24"}`, true, func(spec *ifdriver.Spec) {
				spec.Addrs = []netip.Prefix{netip.MustParsePrefix("192.0.2.77/24"), netip.MustParsePrefix("2001:db8::77/64")}
				spec.Routes = []netif.Route{
					route("198.51.100.0/24", "192.0.2.1", 0), route("2001:db8:1::/64", "2001:db8::1", 0),
					route("192.0.2.0/24", "", 78), route("10.9.0.0/16", "192.0.2.1", 78), route("2001:db8::/64", "", 78), route("2001:db8:9::/64", "2001:db8::1", 78),
				}
				spec.Rules = []netif.Rule{rule("192.0.2.77/32"), rule("2001:db8::77/128")}
			},
			[]string{"192.0.2.77/24", "2001:db8::77/64"},
			[]string{
				"10.9.0.0/16 by 192.0.2.1 on net1 in 78", "192.0.2.0/24 by <nil> on net1 in 78", "198.51.100.0/24 by 192.0.2.1 on net1 in 254",
				"2001:db8:1::/64 by 2001:db8::1 on net1 in 254", "2001:db8:9::/64 by 2001:db8::1 on net1 in 78", "2001:db8::/64 by <nil> on net1 in 78",
				"from 192.0.2.77/32 to 78", "from 2001:db8::77/128 to 78",
			},
		},
		"no address": {`{"dst":"203.0.113.0/24"}`, true, func(*ifdriver.Spec) {}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.writeConf(t, "lab.conf", r.lab(c.routes))
			spec := r.static("net1", c.inject)
			c.change(&spec)
			if _, err := r.attach(t, spec); err != nil {
				t.Fatal(err)
			}
			if addrs, exists := r.inside(t); !exists || !slices.Equal(addrs, c.addrs) || (len(r.leases(t)) == 0) != c.inject {
				t.Errorf("the interface has %v, leases %v", addrs, r.leases(t))
			}
			if diff := cmp.Diff(c.want, r.ways(t)); diff != "" {
				t.Errorf("routes and rules (-want +got):\n%s", diff)
			}
			checked := spec
			checked.Delegate = nil // as records have it
			if _, err := r.check(t, checked); err != nil {
				t.Errorf("CHECK: %v", err)
			}
			r.open(t) // a new daemon
			if err := r.detach(t); err != nil {
				t.Errorf("detach: %v", err)
			}
			if _, exists := r.inside(t); exists || len(r.ways(t)) != 0 || len(r.leases(t)) != 0 {
				t.Errorf("left are the interface (%t), %v, leases %v", exists, r.ways(t), r.leases(t))
			}
		})
	}
}

func TestStaticIPAM_ImpossibleRoutes_FailWithCause(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ifdriver.Spec)
		says   []string
	}{
		"a gateway of the network off the link": {
			func(spec *ifdriver.Spec) { spec.Routes = []netif.Route{route("198.51.100.0/24", "203.0.113.1", 0)} },
			[]string{"198.51.100.0/24 by 203.0.113.1", "is each gateway on the link of net1, which has [192.0.2.2/24]", "unreachable"},
		},
		"a gateway of the pod off the link": {
			func(spec *ifdriver.Spec) {
				spec.Routes, spec.Rules = []netif.Route{route("10.9.0.0/16", "203.0.113.1", 78)}, []netif.Rule{rule("0.0.0.0/32")}
			},
			[]string{"10.9.0.0/16 by 203.0.113.1 in table 78", `"proutes"`},
		},
		"no address of the family": {
			func(spec *ifdriver.Spec) {
				spec.Routes, spec.Rules = []netif.Route{route("2001:db8:9::/64", "2001:db8::1", 78)}, []netif.Rule{rule("::/128")}
			},
			[]string{`"proutes"`, "gave net1 no address of the family of table 78"},
		},
		"a destination of another interface": {
			func(spec *ifdriver.Spec) { spec.Routes = []netif.Route{route("203.0.113.0/24", "192.0.2.1", 0)} },
			[]string{"route to 203.0.113.0/24 by 192.0.2.1", "other interface", "exists"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pod.Do(t, func() error {
				other := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "other"}}
				if err := errors.Join(netlink.LinkAdd(other), netlink.LinkSetUp(other)); err != nil {
					return err
				}
				_, dst, err := net.ParseCIDR("203.0.113.0/24")
				return errors.Join(err, netlink.RouteAdd(&netlink.Route{LinkIndex: other.Index, Dst: dst, Scope: netlink.SCOPE_LINK}))
			})
			before := r.ways(t)
			r.writeConf(t, "lab.conf", r.lab(``))
			spec := r.static("net1", false)
			c.change(&spec)
			_, err := r.attach(t, spec)
			for _, part := range c.says {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%v, want %q", err, part)
				}
			}
			if _, exists := r.inside(t); exists || !slices.Equal(r.ways(t), before) || len(r.leases(t)) != 0 {
				t.Errorf("left are the interface (%t), %v, leases %v", exists, r.ways(t), r.leases(t))
			}
		})
	}
}

func TestOtherPluginCheck_RouteOrRuleGone_Reported(t *testing.T) {
	for name, damage := range map[string]func() error{
		"a route": func() error {
			_, dst, err := net.ParseCIDR("10.9.0.0/16")
			return errors.Join(err, netlink.RouteDel(&netlink.Route{Dst: dst, Table: 78}))
		},
		"a rule": func() error {
			_, src, err := net.ParseCIDR("192.0.2.2/32")
			gone := netlink.NewRule()
			gone.Src, gone.Table = src, 78
			return errors.Join(err, netlink.RuleDel(gone))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.writeConf(t, "lab.conf", r.lab(``))
			spec := r.static("net1", false)
			spec.Routes, spec.Rules = []netif.Route{route("10.9.0.0/16", "192.0.2.1", 78)}, []netif.Rule{rule("0.0.0.0/32")}
			if _, err := r.attach(t, spec); err != nil {
				t.Fatal(err)
			}
			r.pod.Do(t, damage)
			if _, err := r.check(t, spec); !errors.Is(err, ifdriver.ErrMismatch) || errors.Is(err, ifdriver.ErrGone) || !strings.Contains(err.Error(), "is gone") {
				t.Errorf("%v", err)
			}
		})
	}
}

// Plugins that run side by side make their default routes in any order. The pod's list decides
// which one counts, and a network may have one too.
func TestDefaultRoutes_SeveralInterfaces_FirstKept(t *testing.T) {
	const everything = `{"dst":"0.0.0.0/0","gw":"192.0.2.1"}`
	const first, second = "0.0.0.0/0 by 192.0.2.1 on net1 in 254", "0.0.0.0/0 by 192.0.2.1 on net2 in 254"
	vpc := &ifdriver.Made{Spec: ifdriver.Spec{IfName: "eth0", Gateways: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}}
	ofNetwork := func(spec *ifdriver.Spec) { spec.Routes = []netif.Route{route("0.0.0.0/0", "192.0.2.1", 0)} }
	for name, c := range map[string]struct {
		before []*ifdriver.Made
		routes string
		change func(first, second *ifdriver.Spec)
		made   []string // in the order of the plugins' ADDs
		want   []string
	}{
		"the first one is made first":        {nil, everything, nil, []string{"net1", "net2"}, []string{first}},
		"the first one is made last":         {nil, everything, nil, []string{"net2", "net1"}, []string{first}},
		"an interface in a VPC precedes":     {[]*ifdriver.Made{vpc}, everything, nil, []string{"net1", "net2"}, nil},
		"the second network has one":         {nil, ``, func(_, second *ifdriver.Spec) { ofNetwork(second) }, []string{"net1", "net2"}, []string{second}},
		"the first network has one":          {nil, everything, func(first, _ *ifdriver.Spec) { ofNetwork(first) }, []string{"net2", "net1"}, []string{first}},
		"the first network has one of IPv6,": {nil, everything, func(first, _ *ifdriver.Spec) { first.Routes = []netif.Route{route("::/0", "2001:db8::1", 0)} }, []string{"net2", "net1"}, []string{first}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.writeConf(t, "lab.conf", r.lab(c.routes))
			specs := map[string]ifdriver.Spec{"net1": r.static("net1", false), "net2": r.static("net2", false)}
			if c.change != nil {
				one, two := specs["net1"], specs["net2"]
				c.change(&one, &two)
				specs["net1"], specs["net2"] = one, two
			}
			links := map[string]ifdriver.Link{}
			for _, ifName := range c.made {
				r.node.Do(t, func() (err error) {
					links[ifName], err = r.Attach(t.Context(), specs[ifName])
					return err
				})
			}
			list := slices.Clone(c.before)
			for _, ifName := range []string{"net1", "net2"} {
				list = append(list, &ifdriver.Made{Spec: specs[ifName], Link: links[ifName]})
			}
			if err := r.finish(t, list...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, r.ways(t)); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
			for _, one := range list[len(c.before):] {
				ifName := one.IfName
				defaults := slices.ContainsFunc(one.Link.Result.Routes, func(made ifdriver.ResultRoute) bool { return made.Dst.Bits() == 0 })
				if kept := slices.ContainsFunc(r.ways(t), func(way string) bool { return strings.Contains(way, ifName) }); defaults && !kept {
					t.Errorf("the result of %s has a default route", ifName)
				}
			}
		})
	}
}
