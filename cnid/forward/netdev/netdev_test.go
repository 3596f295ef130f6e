// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

const (
	podDevice  = "alv0123456789ab"
	podDevice2 = "alvba9876543210"
)

var (
	devices = Devices{TunnelPort: 4789, MTU: 1430}
	shadows = []netip.Addr{netip.MustParseAddr("169.254.64.1"), netip.MustParseAddr("fd41:6c69:6f74:6801::1")}
)

// node is a namespace with an underlay device and two pods' devices.
type node struct {
	ns.NetNS
	host     *Host
	settings string
	pods     map[string]int
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{NetNS: testnet.New(t), settings: filepath.Join(t.TempDir(), "sysctls.json")}
	other := testnet.New(t)
	testnet.Veth(t, n, "eth0", []string{"192.0.2.1/24", "2001:db8::1/64"}, other, "eth0", nil)
	testnet.Veth(t, n, podDevice, nil, other, "pod1", nil)
	testnet.Veth(t, n, podDevice2, nil, other, "pod2", nil)
	n.in(t, func() (err error) {
		if n.host, err = New(n.settings, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
		t.Cleanup(n.host.Close)
		n.pods, err = n.host.Existing([]string{podDevice, podDevice2, "alvnotthere"})
		return err
	})
	return n
}

func (n *node) in(t *testing.T, do func() error) {
	t.Helper()
	testnet.In(t, n.NetNS, do)
}

func (n *node) state() hostdev.State {
	return hostdev.State{
		Shadows: shadows,
		Node: hostdev.NodeInterface{
			Addrs:    []netip.Addr{netip.MustParseAddr("10.244.0.7"), netip.MustParseAddr("fd10:244::7")},
			MAC:      [6]byte{2, 0, 10, 244, 0, 7},
			Prefixes: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd10:244::/48")},
		},
		Pods: []hostdev.Pod{
			{
				Device: podDevice, Ifindex: n.pods[podDevice], MTU: 1430, MAC: [6]byte{2, 1, 2, 3, 4, 5},
				Shadows: []netip.Addr{netip.MustParseAddr("169.254.64.5"), netip.MustParseAddr("fd41:6c69:6f74:6801::5")},
			},
			{Device: podDevice2, Ifindex: n.pods[podDevice2], Shadows: []netip.Addr{netip.MustParseAddr("169.254.64.6")}},
		},
	}
}

// apply makes the devices and the state.
func (n *node) apply(t *testing.T, s hostdev.State) Indexes {
	t.Helper()
	var indexes Indexes
	n.in(t, func() (err error) {
		if indexes, err = n.host.Links(devices); err != nil {
			return err
		}
		return n.host.Apply(s)
	})
	return indexes
}

// source returns the source address and the device of a packet from the node to ip.
func (n *node) source(t *testing.T, ip string) (from, device string) {
	t.Helper()
	n.in(t, func() error {
		routes, err := netlink.RouteGet(net.ParseIP(ip))
		if err != nil {
			return err
		}
		link, err := netlink.LinkByIndex(routes[0].LinkIndex)
		if err != nil {
			return err
		}
		from, device = routes[0].Src.String(), link.Attrs().Name
		return nil
	})
	return from, device
}

func TestNode_ShadowAndDefaultVPC_RightSourceUsed(t *testing.T) {
	n := newNode(t)
	n.apply(t, n.state())
	cases := []struct{ to, from, device string }{
		{"169.254.64.5", "169.254.64.1", podDevice},
		{"169.254.64.6", "169.254.64.1", podDevice2},
		{"fd41:6c69:6f74:6801::5", "fd41:6c69:6f74:6801::1", podDevice},
		{"10.244.3.3", "10.244.0.7", hostdev.Node},
		{"fd10:244::3", "fd10:244::7", hostdev.Node},
		{"192.0.2.9", "192.0.2.1", "eth0"},
		{"2001:db8::9", "2001:db8::1", "eth0"},
	}
	for _, c := range cases {
		from, device := n.source(t, c.to)
		if from != c.from || device != c.device {
			t.Errorf("to %s: from %s by %s, want %s by %s", c.to, from, device, c.from, c.device)
		}
	}
}

// made reports whether Links makes the device, so that the kernel must not give it
// an address of its own.
func made(device string) bool {
	return slices.Contains(hostdev.Names, device)
}

// picture lists what Alioth has in the namespace.
func (n *node) picture(t *testing.T) []string {
	t.Helper()
	var list []string
	n.in(t, func() error {
		links, err := rtnl.Complete(netlink.LinkList)
		if err != nil {
			return err
		}
		for _, link := range links {
			attrs := link.Attrs()
			if hostdev.Managed(attrs.Name) {
				list = append(list, "link "+attrs.Name+" "+attrs.HardwareAddr.String())
			}
			addrs, err := rtnl.Complete(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
			if err != nil {
				return err
			}
			for _, addr := range addrs {
				if !made(attrs.Name) && addr.IP.IsLinkLocalUnicast() && addr.IP.To4() == nil {
					continue // the kernel's own, which comes when it comes
				}
				list = append(list, "addr "+attrs.Name+" "+addr.IPNet.String())
			}
		}
		routes, err := n.host.ownRoutes()
		for _, r := range routes {
			list = append(list, "route "+r.dst.String()+" "+r.source.String())
		}
		return err
	})
	slices.Sort(list)
	return list
}

func TestNetdevApply_SecondTime_NothingChanged(t *testing.T) {
	n := newNode(t)
	first := n.apply(t, n.state())
	before := n.picture(t)
	if second := n.apply(t, n.state()); first != second {
		t.Errorf("device indexes changed from %v to %v", first, second)
	}
	if diff := cmp.Diff(before, n.picture(t)); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

func TestNetdevUpdate_PodsComeAndGo_OnlyThose(t *testing.T) {
	n := newNode(t)
	both := n.state()
	one := n.state()
	one.Pods = one.Pods[:1]
	n.apply(t, both)
	want := map[int][]string{}
	for count, s := range map[int]hostdev.State{1: one, 2: both} {
		n.apply(t, s)
		want[count] = n.picture(t)
	}
	for _, s := range []hostdev.State{one, both, one, both} {
		n.in(t, func() error { return n.host.Update(s) })
		if diff := cmp.Diff(want[len(s.Pods)], n.picture(t)); diff != "" {
			t.Errorf("with %d pods (-as applied +as updated):\n%s", len(s.Pods), diff)
		}
	}
}

func TestNetdevUpdate_MoreThanPods_Applied(t *testing.T) {
	n := newNode(t)
	s := n.state()
	node := s.Node
	s.Node = hostdev.NodeInterface{}
	n.apply(t, s)
	s.Node = node
	n.in(t, func() error { return n.host.Update(s) })
	if from, device := n.source(t, "10.244.3.3"); from != "10.244.0.7" || device != hostdev.Node {
		t.Errorf("to the default VPC: from %s by %s", from, device)
	}
}

func (n *node) setting(t *testing.T, name string) string {
	t.Helper()
	var value string
	n.in(t, func() (err error) {
		value, err = n.host.sysctls.get(name)
		return err
	})
	return value
}

func TestNetdevApply_SmallerState_RestRemoved(t *testing.T) {
	n := newNode(t)
	n.apply(t, n.state())
	less := n.state()
	less.Pods = less.Pods[1:]
	less.Node = hostdev.NodeInterface{}
	n.apply(t, less)
	want := []string{"route 169.254.64.6/32 169.254.64.1"}
	var routes []string
	for _, line := range n.picture(t) {
		if strings.HasPrefix(line, "route ") {
			routes = append(routes, line)
		}
		if strings.HasPrefix(line, "addr "+hostdev.Node) {
			t.Errorf("left: %s", line)
		}
	}
	if diff := cmp.Diff(want, routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

func TestNetdevApply_ForeignRoutes_LeftAlone(t *testing.T) {
	n := newNode(t)
	foreign := &netlink.Route{Dst: ipNet(netip.MustParsePrefix("198.51.100.0/24")), Gw: net.ParseIP("192.0.2.9"), Protocol: 4}
	n.in(t, func() error { return netlink.RouteAdd(foreign) })
	n.apply(t, n.state())
	n.in(t, func() error { return n.host.Uninstall(n.state()) })
	if _, device := n.source(t, "198.51.100.1"); device != "eth0" {
		t.Errorf("the foreign route goes by %s", device)
	}
}

func TestNetdevApply_OneDeviceGone_OtherRoutesSet(t *testing.T) {
	n := newNode(t)
	s := n.state()
	n.in(t, func() error { return delLink(podDevice) })
	n.apply(t, s)
	if _, device := n.source(t, "169.254.64.6"); device != podDevice2 {
		t.Errorf("the other pod's shadow goes by %s", device)
	}
}

func TestUninstall_AppliedState_NothingLeft(t *testing.T) {
	n := newNode(t)
	names := []string{forward4, forward6, perDevice("ipv6", "eth0", "accept_ra"), perDevice("ipv6", "default", "accept_ra")}
	before := map[string]string{}
	for _, name := range names {
		before[name] = n.setting(t, name)
	}
	n.apply(t, n.state())
	if got := n.setting(t, perDevice("ipv6", "eth0", "accept_ra")); got != "2" {
		t.Errorf("accept_ra of the underlay is %s while we forward, want 2", got)
	}
	for range 2 {
		n.in(t, func() error { return n.host.Uninstall(hostdev.State{Shadows: shadows}) })
	}
	var left []string
	for _, line := range n.picture(t) {
		if !strings.HasPrefix(line, "addr eth0 ") && line != "addr lo 127.0.0.1/8" && line != "addr lo ::1/128" {
			left = append(left, line)
		}
	}
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, name := range names {
		if got := n.setting(t, name); got != before[name] {
			t.Errorf("%s is %s, was %s", name, got, before[name])
		}
	}
	if _, err := os.Stat(n.settings); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of original settings is still there: %v", err)
	}
}

func TestNetdev_AlreadyForwardingHost_AdvertisementSettingsKept(t *testing.T) {
	n := newNode(t)
	n.in(t, func() error { return os.WriteFile(filepath.Join(hostdev.SettingsRoot, forward6), []byte("1"), 0o644) })
	n.apply(t, n.state())
	if got := n.setting(t, perDevice("ipv6", "eth0", "accept_ra")); got != "1" {
		t.Errorf("accept_ra of the underlay is %s, want it unchanged", got)
	}
}

func TestTunnelDevice_OtherPort_Replaced(t *testing.T) {
	n := newNode(t)
	first := n.apply(t, n.state())
	var second Indexes
	n.in(t, func() (err error) {
		second, err = n.host.Links(Devices{TunnelPort: 14789, MTU: 1430})
		return err
	})
	if first.Tunnel == second.Tunnel || first.NodePeer != second.NodePeer {
		t.Errorf("indexes before %+v, after %+v", first, second)
	}
	n.in(t, func() error {
		link, err := netlink.LinkByName(hostdev.Tunnel)
		if err != nil {
			return err
		}
		if vxlan := link.(*netlink.Vxlan); vxlan.Port != 14789 || !vxlan.FlowBased || vxlan.MTU != 1430 || vxlan.Learning {
			t.Errorf("tunnel device: %+v", vxlan)
		}
		return nil
	})
}

func TestPodMTU_Tunnel_LeavesHeaderRoom(t *testing.T) {
	n := newNode(t)
	cases := []struct {
		address string
		want    int
		err     error
	}{
		{"192.0.2.1", 1450, nil},
		{"2001:db8::1", 1430, nil},
		{"192.0.2.77", 0, ErrNoUnderlay},
	}
	for _, c := range cases {
		n.in(t, func() error {
			got, err := n.host.Underlay(netip.MustParseAddr(c.address))
			if got.PodMTU != c.want || !errors.Is(err, c.err) {
				t.Errorf("Underlay(%s) = %+v, %v; want %d, %v", c.address, got, err, c.want, c.err)
			}
			return nil
		})
	}
}

func TestApply_InvalidState_Refused(t *testing.T) {
	n := newNode(t)
	cases := map[string]func(*hostdev.State){
		"two shadows of a family": func(s *hostdev.State) { s.Shadows = append(s.Shadows, netip.MustParseAddr("169.254.64.2")) },
		"a pod without a device":  func(s *hostdev.State) { s.Pods[0].Ifindex = 0 },
		"a group MAC":             func(s *hostdev.State) { s.Node.MAC[0] = 1 },
		"a mapped address":        func(s *hostdev.State) { s.Node.Addrs[0] = netip.MustParseAddr("::ffff:10.244.0.7") },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			s := n.state()
			s.Shadows, s.Node.Addrs = slices.Clone(s.Shadows), slices.Clone(s.Node.Addrs)
			change(&s)
			n.in(t, func() error {
				if err := n.host.Apply(s); err == nil {
					t.Error("Apply accepted it")
				}
				return nil
			})
		})
	}
}

// unreadable gives a host kernel settings in files. The settings of one device can't be read.
func unreadable(t *testing.T, s *settings, device string) {
	t.Helper()
	s.root = t.TempDir()
	if err := os.MkdirAll(filepath.Join(s.root, perDevice("ipv4", device, "route_localnet")), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.root, forward4), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNetdevApply_OneDeviceFails_OthersSetUp(t *testing.T) {
	n := newNode(t)
	n.apply(t, n.state())
	unreadable(t, n.host.sysctls, podDevice)
	broken := n.state()
	broken.Pods[0].Shadows = []netip.Addr{netip.MustParseAddr("169.254.64.8")}
	broken.Pods[0].Loopback = true // a setting that Update makes, too
	broken.Pods[1].Shadows = []netip.Addr{netip.MustParseAddr("169.254.64.9")}
	for name, apply := range map[string]func(hostdev.State) error{"Apply": n.host.Apply, "Update": n.host.Update} {
		t.Run(name, func(t *testing.T) {
			var err error
			n.in(t, func() error {
				err = apply(broken)
				return nil
			})
			var failure *DeviceError
			if !errors.As(err, &failure) || failure.Ifindex != n.pods[podDevice] {
				t.Fatalf("got %v, want a failure of device %d", err, n.pods[podDevice])
			}
			if from, device := n.source(t, "169.254.64.9"); from != "169.254.64.1" || device != podDevice2 {
				t.Errorf("the other pod: from %s by %s", from, device)
			}
		})
	}
}
