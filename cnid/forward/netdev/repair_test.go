// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
)

// damages are changes by other programs of a node, and the kinds of repair that they
// need.
func damages() map[string]struct {
	do    func() error
	kinds []string
} {
	type damage = struct {
		do    func() error
		kinds []string
	}
	write := func(setting, value string) func() error {
		return func() error { return os.WriteFile(filepath.Join(hostdev.SettingsRoot, setting), []byte(value), 0o644) }
	}
	onLink := func(device string, do func(netlink.Link) error) func() error {
		return func() error {
			link, err := netlink.LinkByName(device)
			if err != nil {
				return err
			}
			return do(link)
		}
	}
	setMTU := func(link netlink.Link) error { return netlink.LinkSetMTU(link, 1400) }
	return map[string]damage{
		"nothing": {func() error { return nil }, nil},
		"a route deleted": {func() error {
			return netlink.RouteDel(&netlink.Route{Dst: ipNet(netip.MustParsePrefix("169.254.64.5/32")), Scope: netlink.SCOPE_LINK})
		}, []string{RepairRoute}},
		"the shadow address deleted": {func() error { return delAddress("lo", shadows[0]) }, []string{RepairAddress, RepairRoute}},
		"the node's address deleted": {func() error { return delAddress(hostdev.Node, netip.MustParseAddr("10.244.0.7")) }, []string{RepairAddress, RepairRoute}},
		"the node's device deleted":  {func() error { return delLink(hostdev.Node) }, []string{RepairAddress, RepairDevice, RepairSetting}},
		"the tunnel device deleted":  {func() error { return delLink(hostdev.Tunnel) }, []string{RepairDevice, RepairSetting}},
		"a foreign address added to the node's device": {onLink(hostdev.Node, func(link netlink.Link) error {
			return netlink.AddrAdd(link, single(netip.MustParseAddr("10.244.0.8")))
		}), []string{RepairAddress}},
		"the node's device set down":      {func() error { return setDown(hostdev.Node) }, []string{RepairAddress, RepairDevice, RepairRoute}},
		"a pod's device set down":         {func() error { return setDown(podDevice) }, []string{RepairDevice, RepairRoute}},
		"the tunnel device set down":      {func() error { return setDown(hostdev.Tunnel) }, []string{RepairDevice}},
		"the tunnel device's MTU changed": {onLink(hostdev.Tunnel, setMTU), []string{RepairDevice}},
		"a pod's device's MTU changed":    {onLink(podDevice, setMTU), []string{RepairDevice}},
		"a pod's device's MAC changed": {onLink(podDevice, func(link netlink.Link) error {
			return netlink.LinkSetHardwareAddr(link, net.HardwareAddr{2, 9, 9, 9, 9, 9})
		}), []string{RepairDevice}},
		"forwarding turned off":            {write(forward4, "0"), []string{RepairSetting}},
		"IPv6 forwarding turned off":       {write(forward6, "0"), []string{RepairSetting}},
		"a pod's device accepts redirects": {write(perDevice("ipv4", podDevice, "accept_redirects"), "1"), []string{RepairSetting}},
		"a pod's device is a proxy":        {write(perDevice("ipv6", podDevice2, "proxy_ndp"), "1"), []string{RepairSetting}},
		"the tunnel device takes routes":   {write(perDevice("ipv6", hostdev.Tunnel, "accept_source_route"), "1"), []string{RepairSetting}},
		"a pod's device's filter set":      {write(perDevice("ipv4", podDevice, "rp_filter"), "1"), []string{RepairSetting}},
		"IPv6 turned off on the node's":    {write(perDevice("ipv6", hostdev.Node, "disable_ipv6"), "1"), []string{RepairAddress, RepairRoute, RepairSetting}},
		"the tunnel device's filter set":   {write(perDevice("ipv4", hostdev.Tunnel, "rp_filter"), "1"), []string{RepairSetting}},
	}
}

func TestNetdevApply_ForeignChange_RepairedAndReported(t *testing.T) {
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.apply(t, n.state())
			n.apply(t, n.state())
			if list := n.host.Repaired(); len(list) != 0 {
				t.Errorf("repaired before the damage: %v", list)
			}
			before := n.withoutMACs(t)
			n.in(t, damage.do)
			n.apply(t, n.state())
			if diff := cmp.Diff(before, n.withoutMACs(t)); diff != "" {
				t.Errorf("(-before the damage +after the repair):\n%s", diff)
			}
			if got := n.setting(t, forward4); got != "1" {
				t.Errorf("ip_forward is %s", got)
			}
			if from, device := n.source(t, "10.244.3.3"); from != "10.244.0.7" || device != hostdev.Node {
				t.Errorf("to the default VPC: from %s by %s", from, device)
			}
			if got := n.repairedKinds(); !slices.Equal(got, damage.kinds) {
				t.Errorf("repaired %v, want %v", got, damage.kinds)
			}
		})
	}
}

// repairedKinds returns the kinds of the host's repairs, sorted.
func (n *node) repairedKinds() []string {
	var kinds []string
	for _, r := range n.host.Repaired() {
		kinds = append(kinds, r.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

func TestApply_ChangedState_NotReportedAsRepair(t *testing.T) {
	n := newNode(t)
	s := n.state()
	s.Pods, s.Node = s.Pods[:1], hostdev.NodeInterface{}
	n.apply(t, s)
	n.apply(t, n.state())
	n.in(t, func() error {
		other := devices
		other.MTU = 1380 // the underlay has another
		if _, err := n.host.Links(other); err != nil {
			return err
		}
		less := n.state()
		less.Pods = less.Pods[1:]
		return errors.Join(delLink(podDevice), n.host.Apply(less))
	})
	if list := n.host.Repaired(); len(list) != 0 {
		t.Errorf("repaired: %v", list)
	}
}

// withoutMACs leaves out the Ethernet addresses, which the kernel chooses for
// a tunnel device and for the far end.
func (n *node) withoutMACs(t *testing.T) []string {
	list := n.picture(t)
	for i, line := range list {
		if fields := strings.Fields(line); fields[0] == "link" && fields[1] != hostdev.Node {
			list[i] = "link " + fields[1]
		}
	}
	return list
}

func delAddress(device string, ip netip.Addr) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	return netlink.AddrDel(link, single(ip))
}

func setDown(device string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	return netlink.LinkSetDown(link)
}

func delLink(device string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}
