// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipvlan_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/child/childtest"
	"github.com/alioth-net/alioth/cnid/cni/drivers/ipvlan"
	"github.com/alioth-net/alioth/cnid/cni/drivers/macvlan"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/needs"
)

// needsIPvlan skips a test on a kernel without ipvlan. The kernels of test/vm have it.
func needsIPvlan(t *testing.T) {
	t.Helper()
	n := netnstest.New(t)
	var err error
	n.Do(t, func() error { err = ipvlan.Devices.Type().Probe(t.Context()); return nil })
	if errors.Is(err, ifdriver.ErrUnsupported) {
		t.Skip("skipped: missing feature: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := n.Links(t); len(got) != 0 {
		t.Fatalf("the probe leaves %v", got)
	}
}

// second returns the interface of a second pod, beside the interface of childtest.Spec.
func second(pod *netnstest.Namespace) ifdriver.Spec {
	s := childtest.Spec(pod, "192.0.2.8/24", "2001:db8::8/64")
	s.ContainerID = "other"
	return s
}

func TestIPvlan_ModuleMissing_Named(t *testing.T) {
	needs.Root(t, "to make network namespaces")
	err := ipvlan.Devices.Type().Probe(t.Context())
	if err != nil && (!errors.Is(err, ifdriver.ErrUnsupported) || !strings.Contains(err.Error(), "the kernel module ipvlan")) {
		t.Errorf("got %v", err)
	}
}

func TestIPvlan_PodInterface_SharesParentMACAddress(t *testing.T) {
	needsIPvlan(t)
	n, _ := childtest.NewNode(t, ipvlan.Devices)
	pod := netnstest.New(t)
	s := childtest.Spec(pod)
	s.MAC = nil
	got := childtest.MustAttach(t, n, s)
	id, err := netns.Identify(pod.Path)
	if err != nil {
		t.Fatal(err)
	}
	parent := n.Link(t, "eth0").Attrs()
	if want := (ifdriver.Link{NetnsInode: id.Inode, NetnsCookie: id.Cookie, MAC: parent.HardwareAddr}); !cmp.Equal(got, want) {
		t.Errorf("link is %+v, want %+v", got, want)
	}
	link := pod.Link(t, "eth0")
	if a := link.Attrs(); link.Type() != "ipvlan" || a.MTU != 1500 || !bytes.Equal(a.HardwareAddr, parent.HardwareAddr) || a.Flags&net.FlagUp == 0 {
		t.Errorf("the interface is a %s: %+v", link.Type(), a)
	}
	if diff := cmp.Diff([]string{"192.0.2.7/24", "2001:db8::7/64", "link-local"}, childtest.AddressesOf(t, pod, "eth0")); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if checked, err := n.Driver.Check(t.Context(), s); err != nil || !cmp.Equal(checked, got) {
		t.Errorf("check gives %+v, %v", checked, err)
	}
	want := []ifdriver.Found{{ContainerID: s.ContainerID, IfName: "eth0", PodUID: "uid", Network: "alioth", NetnsPath: s.NetnsPath, MTU: 1500, Link: got}}
	if got, err := n.Driver.List(t.Context()); err != nil || !cmp.Equal(got, want) {
		t.Errorf("listed are %+v, %v", got, err)
	}
	if err := n.Driver.Detach(t.Context(), s.ContainerID, s.IfName); err != nil {
		t.Error(err)
	}
	if left := append(pod.Links(t), n.Notes(t)...); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// TestIPvlan_PodsOnOneParent_AllReachable has two pods with one Ethernet address.
// Their link-local addresses differ all the same.
func TestIPvlan_PodsOnOneParent_AllReachable(t *testing.T) {
	needsIPvlan(t)
	n, r := childtest.NewNode(t, ipvlan.Devices)
	a, b := netnstest.New(t), netnstest.New(t)
	childtest.MustAttach(t, n, childtest.Spec(a))
	childtest.MustAttach(t, n, second(b))
	childtest.Serve(t, b, "b")
	childtest.Serve(t, r.Namespace, "router")
	for _, c := range []struct{ from, to, want string }{
		{"192.0.2.7", "192.0.2.8", "b"}, {"2001:db8::7", "2001:db8::8", "b"}, {"192.0.2.7", "192.0.2.1", "router"},
	} {
		if answer, err := childtest.Ask(t, a, c.from, c.to, 20*time.Second); answer != c.want {
			t.Errorf("%s answers %q, %v", c.to, answer, err)
		}
	}
	if one, other := linkLocal(t, a), linkLocal(t, b); one == other {
		t.Errorf("both pods have %s", one)
	}
}

func linkLocal(t *testing.T, pod *netnstest.Namespace) string {
	t.Helper()
	var found string
	link := pod.Link(t, "eth0")
	pod.Do(t, func() error {
		list, err := netlink.AddrList(link, netlink.FAMILY_V6)
		for _, addr := range list {
			if addr.IP.IsLinkLocalUnicast() {
				found = addr.IP.String()
			}
		}
		return err
	})
	if found == "" {
		t.Fatal("the pod has no link-local address")
	}
	return found
}

func TestIPvlan_Attach_NeighboursLearnParentMACAddress(t *testing.T) {
	needsIPvlan(t)
	n, r := childtest.NewNode(t, ipvlan.Devices)
	s := childtest.Spec(netnstest.New(t))
	r.Do(t, netnstest.OnLink("wire", func(l netlink.Link) error { // as if another pod had had the addresses
		var errs []error
		for _, p := range s.Addrs {
			row := &netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_STALE, IP: p.Addr().AsSlice(), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}
			errs = append(errs, netlink.NeighSet(row))
		}
		return errors.Join(errs...)
	}))
	mac := childtest.MustAttach(t, n, s).MAC
	childtest.AwaitNeighbours(t, r, mac, "192.0.2.7", "2001:db8::7")
}

func TestAttach_Failure_ExplainedAndNothingLeft(t *testing.T) {
	needsIPvlan(t)
	for _, tc := range []struct {
		name   string
		onNode func() error
		change func(*ifdriver.Spec)
		says   string
	}{
		{name: "a parent that is no Ethernet", onNode: func() error { return childtest.AddAddrs("lo") }, change: func(s *ifdriver.Spec) { s.Parent = "lo" }, says: "not an Ethernet"},
		{name: "a parent that is a port of a bridge", onNode: childtest.Enslave, says: "is a port of a bridge"},
		{name: "a parent with a macvlan", onNode: netnstest.OnLink("eth0", func(l netlink.Link) error {
			attrs := netlink.LinkAttrs{Name: "mac0", TxQLen: -1, ParentIndex: l.Attrs().Index}
			return netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE})
		}), says: "has interfaces of type macvlan; a device has interfaces of one type only"},
		{name: "mode L3", change: func(s *ifdriver.Spec) { s.Mode = "l3" }, says: `no mode "l3"; use one of l2`},
		{name: "mode L3S", change: func(s *ifdriver.Spec) { s.Mode = "l3s" }, says: `no mode "l3s"; use one of l2`},
		{name: "an MTU above the parent's", change: func(s *ifdriver.Spec) { s.MTU = 9000 }, says: "MTU 9000 is larger than MTU 1500 of device eth0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, _ := childtest.NewNode(t, ipvlan.Devices)
			pod := netnstest.New(t)
			s := childtest.Spec(pod)
			if tc.onNode != nil {
				n.Do(t, tc.onNode)
			}
			if tc.change != nil {
				tc.change(&s)
			}
			if _, err := n.Driver.Attach(t.Context(), s); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
			if left := append(pod.Links(t), n.Notes(t)...); len(left) != 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

// TestMacvlan_ParentHasIPvlan_RefusedWithExplanation is the other direction of the exclusion.
func TestMacvlan_ParentHasIPvlan_RefusedWithExplanation(t *testing.T) {
	needsIPvlan(t)
	n, _ := childtest.NewNode(t, ipvlan.Devices)
	childtest.MustAttach(t, n, childtest.Spec(netnstest.New(t)))
	var other ifdriver.Driver
	n.Do(t, func() (err error) {
		other, err = macvlan.Devices.Type().Open(ifdriver.Node{Dir: t.TempDir()})
		return err
	})
	defer other.Close()
	if _, err := other.Attach(t.Context(), second(netnstest.New(t))); err == nil ||
		!strings.Contains(err.Error(), "interfaces of type ipvlan; a device has interfaces of one type only") {
		t.Errorf("got %v", err)
	}
}

func TestIPvlanCheck_Changes_Found(t *testing.T) {
	needsIPvlan(t)
	for says, change := range map[string]func(n childtest.Node, pod *netnstest.Namespace){
		"MTU 1400, want 1500": func(_ childtest.Node, pod *netnstest.Namespace) {
			pod.Do(t, netnstest.OnLink("eth0", func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1400) }))
		},
		"is down": func(_ childtest.Node, pod *netnstest.Namespace) {
			pod.Do(t, netnstest.OnLink("eth0", netlink.LinkSetDown))
		},
		"has mode l3, want l2": func(n childtest.Node, _ *netnstest.Namespace) {
			n.Do(t, netnstest.OnLink("eth0", func(l netlink.Link) error { // the mode is the parent's
				attrs := netlink.LinkAttrs{Name: "foreign", TxQLen: -1, ParentIndex: l.Attrs().Index}
				return netlink.LinkAdd(&netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L3})
			}))
		},
	} {
		t.Run(says, func(t *testing.T) {
			n, _ := childtest.NewNode(t, ipvlan.Devices)
			pod := netnstest.New(t)
			s := childtest.Spec(pod)
			s.MTU = 1500
			childtest.MustAttach(t, n, s)
			change(n, pod)
			if _, err := n.Driver.Check(t.Context(), s); !errors.Is(err, ifdriver.ErrMismatch) || !strings.Contains(fmt.Sprint(err), says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestAttach_RemainsOfEarlierAttempt_Replaced is about a daemon that ended before it marked
// the interface: the address of the pod is free again.
func TestAttach_RemainsOfEarlierAttempt_Replaced(t *testing.T) {
	needsIPvlan(t)
	n, _ := childtest.NewNode(t, ipvlan.Devices)
	pod := netnstest.New(t)
	s := childtest.Spec(pod)
	childtest.MustAttach(t, n, s)
	n.Start(t)
	s.Addrs, s.Gateways = []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24")}, s.Gateways[:1]
	childtest.MustAttach(t, n, s)
	if diff := cmp.Diff([]string{"192.0.2.9/24", "link-local"}, childtest.AddressesOf(t, pod, "eth0")); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}
