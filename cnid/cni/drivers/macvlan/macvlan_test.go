// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package macvlan_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/drivers/child/childtest"
	"github.com/alioth-net/alioth/cnid/cni/drivers/macvlan"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

func TestKernel_MacvlanSupport_Present(t *testing.T) {
	n := netnstest.New(t)
	n.Do(t, func() error { return macvlan.Devices.Type().Probe(t.Context()) })
	if got := n.Links(t); len(got) != 0 {
		t.Errorf("%v are left", got)
	}
}

func TestMacvlan_Attach_InterfaceInPodNotNode(t *testing.T) {
	n, _ := childtest.NewNode(t, macvlan.Devices)
	pod := netnstest.New(t)
	pod.BelieveNeighbours(t)
	s := childtest.Spec(pod)
	s.AltName = "blue"
	got := childtest.MustAttach(t, n, s)
	id, err := netns.Identify(pod.Path)
	if err != nil {
		t.Fatal(err)
	}
	if want := (ifdriver.Link{NetnsInode: id.Inode, NetnsCookie: id.Cookie}); !cmp.Equal(got, want) {
		t.Errorf("link is %+v, want %+v", got, want)
	}
	if got := n.Links(t); len(got) != 1 {
		t.Errorf("the node has %v, want eth0 alone", got)
	}
	link := pod.Link(t, "eth0")
	a := link.Attrs()
	if link.Type() != "macvlan" || a.MTU != 1500 || !bytes.Equal(a.HardwareAddr, s.MAC) || a.Flags&net.FlagUp == 0 ||
		!strings.Contains(a.Alias, "customer-a/web-1") {
		t.Errorf("the interface is a %s: %+v", link.Type(), a)
	}
	if alt := pod.Link(t, "blue").Attrs(); alt.Index != a.Index {
		t.Errorf("the other name belongs to %s", alt.Name)
	}
	if diff := cmp.Diff([]string{"192.0.2.7/24", "2001:db8::7/64", "link-local"}, childtest.AddressesOf(t, pod, "eth0")); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	for _, want := range hostdev.PodSettings {
		if got := pod.Setting(t, hostdev.FamilyFolder(want.Family), "eth0", want.Name); got != strconv.Itoa(want.Value) {
			t.Errorf("setting %s of %s is %s, want %d", want.Name, want.Family, got, want.Value)
		}
	}
	if checked, err := n.Driver.Check(t.Context(), s); err != nil || !cmp.Equal(checked, got) {
		t.Errorf("check gives %+v, %v", checked, err)
	}
}

func TestMacvlan_EachMode_PodReachabilityMatches(t *testing.T) {
	for _, tc := range []struct {
		mode    string
		reaches bool
	}{{"", true}, {"bridge", true}, {"private", false}, {"vepa", false}} { // the router returns no packets
		t.Run("mode "+tc.mode, func(t *testing.T) {
			n, _ := childtest.NewNode(t, macvlan.Devices)
			a, b := netnstest.New(t), netnstest.New(t)
			for pod, addr := range map[*netnstest.Namespace]string{a: "192.0.2.7/24", b: "192.0.2.8/24"} {
				s := childtest.Spec(pod, addr)
				s.ContainerID, s.Mode = "sandbox-"+addr, tc.mode
				childtest.MustAttach(t, n, s)
				if _, err := n.Driver.Check(t.Context(), s); err != nil {
					t.Error(err)
				}
			}
			childtest.Serve(t, b, "b")
			patience := map[bool]time.Duration{true: 20 * time.Second, false: 300 * time.Millisecond}[tc.reaches]
			answer, err := childtest.Ask(t, a, "192.0.2.7", "192.0.2.8", patience)
			if (answer == "b") != tc.reaches {
				t.Errorf("answered %q, %v", answer, err)
			}
		})
	}
}

func TestMacvlan_PassthruMode_DeviceExclusive(t *testing.T) {
	n, r := childtest.NewNode(t, macvlan.Devices)
	before := n.Link(t, "eth0").Attrs().HardwareAddr
	pod, other := netnstest.New(t), netnstest.New(t)
	s := childtest.Spec(pod)
	s.Mode = "passthru"
	childtest.MustAttach(t, n, s)
	if _, err := n.Driver.Check(t.Context(), s); err != nil {
		t.Error(err)
	}
	childtest.Serve(t, r.Namespace, "router")
	if answer, err := childtest.Ask(t, pod, "192.0.2.7", "192.0.2.1", 20*time.Second); answer != "router" {
		t.Errorf("the router answers %q, %v", answer, err)
	}
	for _, mode := range []string{"passthru", "bridge"} {
		second := childtest.Spec(other, "192.0.2.8/24")
		second.ContainerID, second.Mode = "other", mode
		if _, err := n.Driver.Attach(t.Context(), second); err == nil || !strings.Contains(err.Error(), "passthru") {
			t.Errorf("a second interface in mode %s: %v", mode, err)
		}
	}
	if err := n.Driver.Detach(t.Context(), s.ContainerID, s.IfName); err != nil {
		t.Fatal(err)
	}
	if after := n.Link(t, "eth0").Attrs().HardwareAddr; !bytes.Equal(before, after) {
		t.Errorf("afterwards the device has the address %s, before %s", after, before)
	}
}

func TestMacvlan_MTU_ParentsOrSmaller(t *testing.T) {
	for _, tc := range []struct{ mtu, want int }{{0, 1500}, {1500, 1500}, {1300, 1300}} {
		n, _ := childtest.NewNode(t, macvlan.Devices)
		pod := netnstest.New(t)
		s := childtest.Spec(pod)
		s.MTU = tc.mtu
		childtest.MustAttach(t, n, s)
		if got := pod.Link(t, "eth0").Attrs().MTU; got != tc.want {
			t.Errorf("MTU %d became %d, want %d", tc.mtu, got, tc.want)
		}
		if _, err := n.Driver.Check(t.Context(), s); err != nil {
			t.Error(err)
		}
	}
}

func TestAttach_Failure_ExplainedAndNothingLeft(t *testing.T) {
	for _, tc := range []struct {
		name string
		// onNode and inPod prepare the two namespaces.
		onNode, inPod func() error
		change        func(*ifdriver.Spec)
		want          error
		says          string
		left          []string
	}{
		{name: "no parent", change: func(s *ifdriver.Spec) { s.Parent = "" }, says: "names no device"},
		{name: "a parent that is not there", change: func(s *ifdriver.Spec) { s.Parent = "eth9" }, says: "no device eth9; create it"},
		{name: "a parent that is down", onNode: netnstest.OnLink("eth0", netlink.LinkSetDown), says: "is down; set it up"},
		{name: "a parent that is no Ethernet", onNode: func() error { return childtest.AddAddrs("lo") }, change: func(s *ifdriver.Spec) { s.Parent = "lo" }, says: "not an Ethernet"},
		{name: "a parent that is a port of a bridge", onNode: childtest.Enslave, says: "is a port of a bridge"},
		{name: "a host end of a pod as parent", onNode: becomeHostEnd, change: func(s *ifdriver.Spec) { s.Parent = "alv0123456789ab" }, says: "belongs to Alioth"},
		{name: "a host end by another name", onNode: becomeHostEnd, change: func(s *ifdriver.Spec) { s.Parent = "harmless" }, says: "belongs to Alioth"},
		{name: "a link of other networks as parent", onNode: netnstest.OnLink("eth0", func(l netlink.Link) error {
			return netlink.LinkSetAlias(l, links.Mark(multinet.LinkID{Device: "ens4", Type: multinet.VXLAN, VNI: 100}))
		}), says: "name its parent and number in the network"},
		{name: "an MTU above the parent's", change: func(s *ifdriver.Spec) { s.MTU = 9000 }, says: "MTU 9000 is larger than MTU 1500 of device eth0"},
		{name: "an unknown mode", change: func(s *ifdriver.Spec) { s.Mode = "source" }, says: `no mode "source"; use one of bridge, private, vepa, passthru`},
		{name: "no address", change: func(s *ifdriver.Spec) { s.MAC = nil }, says: "needs an Ethernet address"},
		{name: "the name is taken in the pod", inPod: addForeign("eth0"), want: ifdriver.ErrExists, left: []string{"eth0", "foreign"}},
		{name: "a macvlan of somebody else has the name", inPod: foreignMacvlan, want: ifdriver.ErrExists, left: []string{"base", "eth0", "foreign"}},
		{name: "the other name is taken in the pod", inPod: addForeign("blue"), want: unix.EEXIST, left: []string{"blue", "foreign"}},
		{name: "a gateway that can't be", change: func(s *ifdriver.Spec) { s.Gateways = []netip.Addr{netip.MustParseAddr("224.0.0.1")} }, want: unix.EINVAL},
		{name: "two equal routes", change: func(s *ifdriver.Spec) { s.Routes = append(s.Routes, s.Routes[0]) }, want: unix.EEXIST, says: "add route to 198.51.100.0/24 by 192.0.2.254 in table 300"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, _ := childtest.NewNode(t, macvlan.Devices)
			pod := netnstest.New(t)
			s := childtest.Spec(pod)
			s.AltName = "blue"
			s.Routes = []netif.Route{{Dst: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.254"), Table: 300}}
			s.Rules = []netif.Rule{{From: netip.MustParsePrefix("192.0.2.7/32"), Table: 300}}
			if tc.onNode != nil {
				n.Do(t, tc.onNode)
			}
			if tc.inPod != nil {
				pod.Do(t, tc.inPod)
			}
			if tc.change != nil {
				tc.change(&s)
			}
			before := pod.Rules(t)
			onNode := n.Links(t)
			_, err := n.Driver.Attach(t.Context(), s)
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %v with %q", err, tc.want, tc.says)
			}
			if diff := cmp.Diff(append([]string{}, tc.left...), pod.Links(t)); diff != "" {
				t.Errorf("devices in the pod (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(onNode, n.Links(t)); diff != "" {
				t.Errorf("devices on the node (-before +after):\n%s", diff)
			}
			if after := pod.Rules(t); after != before {
				t.Errorf("%d rules, before %d", after, before)
			}
			if got := n.Notes(t); len(got) != 0 {
				t.Errorf("%v are left", got)
			}
		})
	}
}

// becomeHostEnd gives eth0 the name of a pod's host end, and another one. Linux before 6.3
// renames no link that is up.
func becomeHostEnd() error {
	return netnstest.OnLink("eth0", func(l netlink.Link) error {
		return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, "alv0123456789ab"),
			netlink.LinkAddAltName(l, "harmless"), netlink.LinkSetUp(l))
	})()
}

// addForeign makes a device that Alioth has nothing to do with.
func addForeign(name string) func() error {
	return func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}, PeerName: "foreign"})
	}
}

// foreignMacvlan makes a macvlan eth0 that another program might have made.
func foreignMacvlan() error {
	if err := addForeign("base")(); err != nil {
		return err
	}
	return netnstest.OnLink("base", func(l netlink.Link) error {
		return netlink.LinkAdd(
			&netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "eth0", TxQLen: -1, ParentIndex: l.Attrs().Index}, Mode: netlink.MACVLAN_MODE_BRIDGE},
		)
	})()
}

func TestMacvlan_NamespaceNotOfPod_Refused(t *testing.T) {
	n, _ := childtest.NewNode(t, macvlan.Devices)
	if _, err := n.Driver.Attach(t.Context(), childtest.Spec(n.Namespace)); err == nil || !strings.Contains(err.Error(), "node's own") {
		t.Errorf("got %v", err)
	}
	gone := netnstest.New(t)
	gone.Close(t)
	if _, err := n.Driver.Attach(t.Context(), childtest.Spec(gone)); !errors.Is(err, netns.ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
	if got := n.Notes(t); len(got) != 0 {
		t.Errorf("%v are left", got)
	}
}

// unfinished leaves the remains of a process that ends before the interface has its mark.
func unfinished(name func(ifdriver.Spec) string) func(*testing.T, childtest.Node, ifdriver.Spec) {
	return func(t *testing.T, n childtest.Node, s ifdriver.Spec) {
		t.Helper()
		pod, err := ns.GetNS(s.NetnsPath)
		if err != nil {
			t.Fatal(err)
		}
		defer pod.Close()
		n.AddDevice(t, "up0") // the name of eth0 is taken on the node
		n.Do(t, netnstest.OnLink("up0", func(l netlink.Link) error {
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.ParentIndex, attrs.Namespace, attrs.Group = "unfinished", l.Attrs().Index, netlink.NsFd(int(pod.Fd())), links.Unfinished
			return netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE})
		}))
		named := &netnstest.Namespace{Path: s.NetnsPath}
		named.Do(t, netnstest.OnLink("unfinished", func(l netlink.Link) error { return netlink.LinkSetName(l, name(s)) }))
	}
}

func TestAttach_RemainsOfEarlierAttempt_Replaced(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, childtest.Node, ifdriver.Spec){
		"a whole interface": func(t *testing.T, n childtest.Node, s ifdriver.Spec) { childtest.MustAttach(t, n, s) },
		"a whole interface without a note": func(t *testing.T, n childtest.Node, s ifdriver.Spec) {
			childtest.MustAttach(t, n, s)
			for _, file := range n.Notes(t) {
				if err := os.Remove(n.Dir + "/macvlan/" + file); err != nil {
					t.Fatal(err)
				}
			}
		},
		"an interface without its mark":                     unfinished(func(s ifdriver.Spec) string { return s.IfName }),
		"an interface with its temporary name, and no mark": unfinished(func(s ifdriver.Spec) string { return ifdriver.DeviceName("alc", s.ContainerID, s.IfName) }),
		"a note alone, half written": func(t *testing.T, n childtest.Node, s ifdriver.Spec) {
			childtest.MustAttach(t, n, s)
			file := n.Dir + "/macvlan/" + n.Notes(t)[0]
			if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := childtest.NewNode(t, macvlan.Devices)
			pod := netnstest.New(t)
			s := childtest.Spec(pod)
			s.Rules = []netif.Rule{{From: netip.MustParsePrefix("192.0.2.7/32"), Table: 100}}
			leave(t, n, s)
			n.Start(t)
			s.Addrs, s.Gateways = []netip.Prefix{netip.MustParsePrefix("192.0.2.8/24")}, s.Gateways[:1]
			childtest.MustAttach(t, n, s)
			if diff := cmp.Diff([]string{"eth0"}, pod.Links(t)); diff != "" {
				t.Errorf("devices in the pod (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"192.0.2.8/24", "link-local"}, childtest.AddressesOf(t, pod, "eth0")); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
			if err := n.Driver.Detach(t.Context(), s.ContainerID, s.IfName); err != nil {
				t.Error(err)
			}
			if left := append(pod.Links(t), n.Notes(t)...); len(left) != 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

func TestMacvlan_Detach_InterfaceAndRulesRemoved(t *testing.T) {
	n, _ := childtest.NewNode(t, macvlan.Devices)
	pod := netnstest.New(t)
	before := pod.Rules(t)
	s := childtest.Spec(pod)
	s.Rules = []netif.Rule{{From: netip.MustParsePrefix("192.0.2.7/32"), Table: 100}, {From: netip.MustParsePrefix("2001:db8::7/128"), Table: 300}}
	childtest.MustAttach(t, n, s)
	n.Start(t) // a daemon that was restarted
	pod.Do(t, netnstest.OnLink("eth0", func(l netlink.Link) error {
		return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, "other"))
	}))
	for _, when := range []string{"first", "again"} {
		if err := n.Driver.Detach(t.Context(), s.ContainerID, s.IfName); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if left := append(pod.Links(t), n.Notes(t)...); len(left) != 0 || pod.Rules(t) != before {
			t.Errorf("%s: %v are left, and %d rules, before %d", when, left, pod.Rules(t), before)
		}
	}
	childtest.MustAttach(t, n, s)
	pod.Close(t)
	if err := n.Driver.Detach(t.Context(), s.ContainerID, s.IfName); err != nil || len(n.Notes(t)) != 0 {
		t.Errorf("after the namespace: %v, and %v are left", err, n.Notes(t))
	}
}

func TestMacvlan_ParentDownAndUp_InterfaceFollows(t *testing.T) {
	n, _ := childtest.NewNode(t, macvlan.Devices)
	pod := netnstest.New(t)
	s := childtest.Spec(pod)
	childtest.MustAttach(t, n, s)
	n.Do(t, netnstest.OnLink("eth0", netlink.LinkDel))
	if _, err := n.Driver.Check(t.Context(), s); !errors.Is(err, ifdriver.ErrGone) {
		t.Errorf("check gives %v", err)
	}
	if _, err := n.Driver.Attach(t.Context(), s); err == nil || !strings.Contains(err.Error(), "no device eth0") {
		t.Errorf("attach gives %v", err)
	}
	n.AddDevice(t, "eth0", "192.0.2.1/24")
	childtest.MustAttach(t, n, s)
	if _, err := n.Driver.Check(t.Context(), s); err != nil {
		t.Error(err)
	}
}

func TestMacvlan_Attach_NeighboursLearnAddress(t *testing.T) {
	n, r := childtest.NewNode(t, macvlan.Devices)
	s := childtest.Spec(netnstest.New(t))
	r.Do(t, netnstest.OnLink("wire", func(l netlink.Link) error { // as if another pod had had the addresses
		var errs []error
		for _, p := range s.Addrs {
			row := &netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_STALE, IP: p.Addr().AsSlice(), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}
			errs = append(errs, netlink.NeighSet(row))
		}
		return errors.Join(errs...)
	}))
	childtest.MustAttach(t, n, s)
	childtest.AwaitNeighbours(t, r, s.MAC, "192.0.2.7", "2001:db8::7")
}

func TestAttach_SeveralPods_RunInParallel(t *testing.T) {
	const pods = 20
	n, _ := childtest.NewNode(t, macvlan.Devices)
	specs := make([]ifdriver.Spec, pods)
	for i := range specs {
		specs[i] = childtest.Spec(netnstest.New(t), fmt.Sprintf("192.0.2.%d/24", i+10))
		specs[i].ContainerID = fmt.Sprintf("container%d", i)
	}
	forAll := func(do func(ifdriver.Spec) error) {
		t.Helper()
		errs := make([]error, pods)
		var wg sync.WaitGroup
		for i, s := range specs {
			wg.Go(func() { errs[i] = do(s) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	}
	forAll(func(s ifdriver.Spec) error { _, err := n.Driver.Attach(t.Context(), s); return err })
	forAll(func(s ifdriver.Spec) error { _, err := n.Driver.Check(t.Context(), s); return err })
	forAll(func(s ifdriver.Spec) error { return n.Driver.Detach(t.Context(), s.ContainerID, s.IfName) })
	if got := n.Notes(t); len(got) != 0 {
		t.Errorf("%v are left", got)
	}
}
