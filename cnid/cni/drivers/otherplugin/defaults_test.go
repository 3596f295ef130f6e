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

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// defaultGateways returns the gateways of the pod's default routes.
func (r *rig) defaultGateways(t *testing.T, family int) (gateways []string) {
	t.Helper()
	r.pod.Do(t, func() error {
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{}, netlink.RT_FILTER_DST)
		for _, route := range routes {
			if route.Type != unix.RTN_UNICAST {
				continue
			}
			if len(route.MultiPath) == 0 {
				gateways = append(gateways, route.Gw.String())
			}
			for _, way := range route.MultiPath {
				gateways = append(gateways, way.Gw.String())
			}
		}
		return err
	})
	return gateways
}

// withDefaults gives the pod the interface "first" with default routes by 10.0.0.1 and, with
// six, fd00::1.
func (r *rig) withDefaults(t *testing.T, six bool) {
	t.Helper()
	r.pod.Do(t, func() error {
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "first"}, PeerName: "peer"}
		errs := []error{netlink.LinkAdd(link), netlink.LinkSetUp(link)}
		if peer, err := netlink.LinkByName("peer"); err == nil {
			errs = append(errs, netlink.LinkSetUp(peer))
		}
		ways := [][2]string{{"10.0.0.5/24", "10.0.0.1"}}
		if six {
			ways = append(ways, [2]string{"fd00::5/64", "fd00::1"})
		}
		for _, way := range ways {
			addr, err := netlink.ParseAddr(way[0])
			if err != nil {
				return err
			}
			addr.Flags = unix.IFA_F_NODAD
			errs = append(errs, netlink.AddrAdd(link, addr), netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(way[1])}))
		}
		return errors.Join(errs...)
	})
}

// The default routes of plugins give way to the default routes of the pod, by family. CHECK and DEL
// work afterwards.
func TestPluginDefaultRoute_PodRoutePresent_Removed(t *testing.T) {
	const v4, v6 = "192.0.2.1", "2001:db8::1"
	bridge := func(r *rig, routes string) string {
		return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"bridge","bridge":"br0","isGateway":true,
			"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"192.0.2.0/24"}],[{"subnet":"2001:db8::/64"}]],"routes":[%s]}}`, filepath.Join(r.dir, "leases"), routes)
	}
	both := `{"dst":"0.0.0.0/0"},{"dst":"::/0"},{"dst":"198.51.100.0/24","gw":"192.0.2.1"}`
	for name, c := range map[string]struct {
		routes         string
		has4, has6     bool
		mode           ifdriver.DefaultRoutes
		asked          string
		want4, want6   []string
		notices, gates int
	}{
		"the pod has both":                  {both, true, true, ifdriver.MissingDefaultRoutes, "", []string{"10.0.0.1"}, []string{"fd00::1"}, 2, 0},
		"the pod has IPv4":                  {both, true, false, ifdriver.MissingDefaultRoutes, "", []string{"10.0.0.1"}, []string{v6}, 1, 1},
		"the pod has none":                  {both, false, false, ifdriver.MissingDefaultRoutes, "", []string{v4}, []string{v6}, 0, 2},
		"halves of all addresses stay":      {`{"dst":"0.0.0.0/1","gw":"192.0.2.1"},{"dst":"128.0.0.0/1","gw":"192.0.2.1"}`, true, false, ifdriver.MissingDefaultRoutes, "", []string{"10.0.0.1"}, nil, 0, 0},
		"the pod has them elsewhere":        {both, false, false, ifdriver.NoDefaultRoutes, "", nil, nil, 0, 0},
		"the pod has them here":             {both, false, false, ifdriver.OwnDefaultRoutes, "", []string{v4}, []string{v6}, 0, 2},
		"the pod has them here, by another": {both, false, false, ifdriver.OwnDefaultRoutes, "192.0.2.9", []string{"192.0.2.9"}, []string{v6}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if c.has4 {
				r.withDefaults(t, c.has6)
			}
			spec := r.spec(build(t, bridge(r, c.routes), nil))
			spec.Delegate.DefaultRoutes = c.mode
			if c.asked != "" {
				spec.Routes = []netif.Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr(c.asked)}}
			}
			link, err := r.attach(t, spec)
			if err != nil {
				t.Fatal(err)
			}
			if got4, got6 := r.defaultGateways(t, netlink.FAMILY_V4), r.defaultGateways(t, netlink.FAMILY_V6); !slices.Equal(got4, c.want4) ||
				!slices.Equal(got6, c.want6) {
				t.Errorf("default routes by %v and %v, want %v and %v", got4, got6, c.want4, c.want6)
			}
			gates := 0
			for _, route := range link.Result.Routes {
				if route.Dst.Bits() == 0 {
					gates++
				}
			}
			if gates != c.gates || len(link.Notices) != c.notices {
				t.Errorf("the result has %d default routes, want %d; events %v, want %d", gates, c.gates, link.Notices, c.notices)
			}
			r.open(t) // a daemon that has started again
			if _, err := r.check(t, spec); err != nil {
				t.Errorf("CHECK: %v", err)
			}
			if err := r.detach(t); err != nil {
				t.Errorf("DEL: %v", err)
			}
			if _, exists := r.inside(t); exists || len(r.leases(t)) != 0 {
				t.Errorf("left are the interface (%v) and leases %v", exists, r.leases(t))
			}
		})
	}
}

// A request that a file of the node does not take is left out, and an event names file and
// capability.
func TestFileRequest_CapabilityMissing_IgnoredWithEvent(t *testing.T) {
	r := newRig(t)
	r.writeConf(t, "20-lab.conflist", `{"cniVersion":"1.0.0","name":"storage","plugins":[{"type":"bridge","bridge":"br8"}]}`)
	link, err := r.attach(t, r.spec(&ifdriver.Delegate{File: &netif.DelegateFile{
		Name: "storage", Plugins: []string{"bridge"}, Runtime: []byte(`{"ips":["192.0.2.9"],"bandwidth":{"ingressRate":8}}`),
	}}))
	if err != nil || len(link.Notices) != 2 {
		t.Fatalf("%+v, %v", link.Notices, err)
	}
	for i, capability := range []string{"bandwidth", "ips"} {
		got := link.Notices[i]
		if want := fmt.Sprintf(`interface net1: %q is ignored: no plugin has the capability`, capability); got.Reason != "RequestIgnored" ||
			!strings.HasPrefix(got.Message, want) ||
			!strings.Contains(got.Message, "20-lab.conflist") {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// NPWG 1.2: default-route, for an interface that plugins make.
func TestPodDefaultRoute_RequestedInterface_LeadsThroughIt(t *testing.T) {
	own := func(text string) string {
		return strings.Replace(text, `{"dst":"198.51.100.0/24","gw":"192.0.2.1"}`, `{"dst":"0.0.0.0/0"}`, 1)
	}
	for name, c := range map[string]struct {
		edit    func(string) string
		gateway string
		fails   bool
	}{
		"no route of the plugin":         {func(text string) string { return text }, "192.0.2.1", false},
		"the plugin has made it":         {own, "192.0.2.1", false},
		"the plugin has made another":    {own, "192.0.2.9", false},
		"a gateway outside of the range": {func(text string) string { return text }, "192.0.3.1", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			spec := r.spec(build(t, c.edit(r.bridge()), nil))
			spec.Routes = []netif.Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr(c.gateway)}}
			_, err := r.attach(t, spec)
			if !c.fails {
				if got := r.defaultGateways(t, netlink.FAMILY_V4); err != nil || !slices.Equal(got, []string{c.gateway}) {
					t.Errorf("default routes by %v, %v", got, err)
				}
				if _, err := r.check(t, spec); err != nil {
					t.Errorf("CHECK: %v", err)
				}
				return
			}
			if _, exists := r.inside(t); err == nil || !strings.Contains(err.Error(), "default-route") || exists || len(r.leases(t)) != 0 {
				t.Errorf("%v; left are the interface (%v) and leases %v", err, exists, r.leases(t))
			}
		})
	}
}
