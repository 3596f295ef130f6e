// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

func TestSRIOV_AttachAndDetach_DeviceReturnedUnchanged(t *testing.T) {
	n := newNode(t, 2)
	vf := n.vfs[1]
	before, other := n.stateOf(t, vf), n.stateOf(t, n.vfs[0])
	pod := netnstest.New(t)
	noRules := pod.Rules(t)
	rate := 10
	s := spec(pod, vf, func(s *ifdriver.Spec) { s.MTU, s.VF.MaxTxRate, s.VF.Trust = 1400, &rate, netif.On })
	got, err := n.Attach(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	id, err := netns.Identify(pod.Path)
	if err != nil {
		t.Fatal(err)
	}
	if want := (ifdriver.Link{NetnsInode: id.Inode, NetnsCookie: id.Cookie}); !cmp.Equal(got, want) {
		t.Errorf("link is %+v, want %+v", got, want)
	}
	link := pod.Link(t, "fast")
	if a := link.Attrs(); a.Name != "net1" || a.MTU != 1400 || !hasMAC(link, s.MAC) || a.Flags&net.FlagUp == 0 || !onPCI(link, vf.Address) ||
		!strings.Contains(a.Alias, "customer-a/web-1") {
		t.Errorf("the interface is %+v", a)
	}
	now, _ := settingsOf(n.adapter.Link(t), vf.Index)
	want := settings{MAC: s.MAC, VLAN: 7, QoS: 3, Proto: before.Settings.Proto, SpoofCheck: true, Trust: 1, MaxTxRate: 10}
	if diff := cmp.Diff(want, now); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	n.start(Config{}) // a daemon that was restarted
	if checked, err := n.Check(t.Context(), s); err != nil || !cmp.Equal(checked, got) {
		t.Errorf("check gives %+v, %v", checked, err)
	}
	list, err := n.List(t.Context())
	if len(list) != 1 || err != nil || list[0].PCI != vf.Address || list[0].MTU != 1400 || list[0].Request != "eth0" || list[0].Link.NetnsCookie != id.Cookie {
		t.Errorf("listed are %+v, %v", list, err)
	}
	for _, when := range []string{"first", "again"} {
		n.mustDetach(t, s)
		n.asBefore(t, vf, before)
		if left := pod.Links(t); len(left) != 0 || pod.Rules(t) != noRules {
			t.Errorf("%s: %v are left in the pod, and %d rules, before %d", when, left, pod.Rules(t), noRules)
		}
	}
	n.asBefore(t, n.vfs[0], other)
	if _, err := n.Check(t.Context(), s); !errors.Is(err, ifdriver.ErrGone) {
		t.Errorf("check of nothing gives %v", err)
	}
}

func TestSRIOV_UnsupportedSetting_NothingChanged(t *testing.T) {
	n := newNode(t, 1)
	vf := n.vfs[0]
	before := n.stateOf(t, vf)
	rate, huge := 10, 1_000_000
	for _, tc := range []struct {
		name   string
		change func(*ifdriver.Spec)
		inPod  func() error
		want   error
		says   string
	}{
		{name: "a guaranteed rate", change: func(s *ifdriver.Spec) { s.VF.MinTxRate = &rate }, says: "can't set min_tx_rate 10"},
		{name: "a rate above that of the adapter", change: func(s *ifdriver.Spec) { s.VF.MaxTxRate = &huge }, says: "can't set min_tx_rate 0, max_tx_rate 1000000"},
		{name: "a link state", change: func(s *ifdriver.Spec) { s.VF.LinkState = "disable" }, says: "can't set link_state disable"},
		{name: "another sort of tag", change: func(s *ifdriver.Spec) { s.VF.Proto = "802.1ad" }, says: "vlanProto 0x88a8"},
		{name: "an MTU above the adapter's", change: func(s *ifdriver.Spec) { s.MTU = 9000 }, says: "MTU 9000 is larger than MTU 1500"},
		{name: "a name that the pod has", inPod: func() error { return netlink.LinkAdd(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "net1"}}) }, want: ifdriver.ErrExists},
		{name: "no device", change: func(s *ifdriver.Spec) { s.PCI = "0000:ff:00.0" }, want: errNoDevice},
		{name: "the adapter itself", change: func(s *ifdriver.Spec) { s.PCI = n.adapter.Address }, want: errNoVF},
		{name: "two equal routes", change: func(s *ifdriver.Spec) { s.Routes = append(s.Routes, s.Routes[0]) }, says: "add route to 198.51.100.0/24"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := netnstest.New(t)
			if tc.inPod != nil {
				pod.Do(t, tc.inPod)
			}
			inPod := pod.Links(t)
			s := spec(pod, vf)
			if tc.change != nil {
				tc.change(&s)
			}
			_, err := n.Attach(t.Context(), s)
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %v with %q", err, tc.want, tc.says)
			}
			n.asBefore(t, vf, before)
			if diff := cmp.Diff(inPod, pod.Links(t)); diff != "" {
				t.Errorf("devices in the pod (-before +after):\n%s", diff)
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Attach(ended, spec(netnstest.New(t), vf)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the deadline: %v", err)
	}
	n.asBefore(t, vf, before)
}

func TestSRIOV_NamespaceEnds_DeviceRestored(t *testing.T) {
	n := newNode(t, 1)
	vf := n.vfs[0]
	before := n.stateOf(t, vf)
	pod := netnstest.New(t)
	s := spec(pod, vf, func(s *ifdriver.Spec) { s.IfName = n.adapter.Name }) // the node has a device of that name too
	n.mustAttach(t, s)
	pod.Close(t)
	n.start(Config{})
	if list, err := n.List(t.Context()); err != nil || len(list) != 1 || list[0].Link.NetnsCookie != 0 {
		t.Errorf("listed are %+v, %v", list, err)
	}
	n.mustDetach(t, s)
	n.asBefore(t, vf, before)
}

func TestVirtualFunction_SecondOwner_Refused(t *testing.T) {
	n := newNode(t, 1)
	vf := n.vfs[0]
	before := n.stateOf(t, vf)
	first, second := netnstest.New(t), netnstest.New(t)
	one := spec(first, vf)
	two := spec(second, vf, func(s *ifdriver.Spec) {
		s.ContainerID, s.PodUID, s.MAC = "other", "uid-2", net.HardwareAddr{2, 0, 192, 0, 2, 8}
	})
	n.mustAttach(t, one)
	if _, err := n.Attach(t.Context(), two); err == nil || !strings.Contains(err.Error(), "is interface net1 of pod uid in sandbox "+one.ContainerID) {
		t.Errorf("a second owner: %v", err)
	}
	if _, err := n.Check(t.Context(), one); err != nil {
		t.Errorf("the first one: %v", err)
	}
	first.Close(t) // without a DEL
	n.mustAttach(t, two)
	n.mustDetach(t, one) // late
	if _, err := n.Check(t.Context(), two); err != nil {
		t.Errorf("the second one after the late end of the first: %v", err)
	}
	n.mustDetach(t, two)
	n.asBefore(t, vf, before)
}

func TestSRIOV_PodChangesDevice_FoundAndUndone(t *testing.T) {
	n := newNode(t, 1)
	vf := n.vfs[0]
	before := n.stateOf(t, vf)
	for name, tc := range map[string]struct {
		inPod  func() error
		onNode func() error
		gone   bool
	}{
		"another name": {inPod: netnstest.OnLink("net1", netlink.LinkSetDown, func(l netlink.Link) error { return netlink.LinkSetName(l, "mine") })},
		"down":         {inPod: netnstest.OnLink("net1", netlink.LinkSetDown)},
		"no addresses": {inPod: netnstest.OnLink("net1", func(l netlink.Link) error {
			addrs, err := netlink.AddrList(l, netlink.FAMILY_V4)
			for _, addr := range addrs {
				err = errors.Join(err, netlink.AddrDel(l, &addr))
			}
			return err
		})},
		"another VLAN":    {onNode: netnstest.OnLink(n.adapter.Name, func(l netlink.Link) error { return netlink.LinkSetVfVlan(l, vf.Index, 9) })},
		"no check":        {onNode: netnstest.OnLink(n.adapter.Name, func(l netlink.Link) error { return netlink.LinkSetVfSpoofchk(l, vf.Index, false) })},
		"an own address":  {onNode: netnstest.OnLink(n.adapter.Name, func(l netlink.Link) error { return netlink.LinkSetVfHardwareAddr(l, vf.Index, podMAC) })},
		"moved elsewhere": {gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := netnstest.New(t)
			s := spec(pod, vf)
			n.mustAttach(t, s)
			switch {
			case tc.gone:
				pod.Do(t, netnstest.OnLink("net1", func(l netlink.Link) error { return netlink.LinkSetNsFd(l, int(n.space.Fd())) }))
			case tc.inPod != nil:
				pod.Do(t, tc.inPod)
			default:
				if err := tc.onNode(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := n.Check(t.Context(), s); !errors.Is(err, ifdriver.ErrMismatch) || errors.Is(err, ifdriver.ErrGone) != tc.gone {
				t.Errorf("check gives %v", err)
			}
			if tc.gone { // as the restorer does
				n.mustAttach(t, s)
				if _, err := n.Check(t.Context(), s); err != nil {
					t.Errorf("restored: %v", err)
				}
			}
			n.mustDetach(t, s)
			n.asBefore(t, vf, before)
		})
	}
}

func TestSRIOV_UserspaceDriverDevice_DummyInPod(t *testing.T) {
	n := newNode(t, 1)
	vf := n.vfs[0]
	vf.Bind(t, "vfio-pci")
	before := n.stateOf(t, vf)
	for _, tc := range []struct {
		name  string
		vlan  uint32
		kinds map[string]string
	}{
		{"untagged", 0, map[string]string{"net1": "dummy"}},
		{"on a VLAN", 7, map[string]string{"net1": "vlan", ifdriver.DeviceName(temporaryPrefix, "0123456789abcdef", "net1"): "dummy"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := netnstest.New(t)
			s := spec(pod, vf, func(s *ifdriver.Spec) { s.VLAN, s.VF.QoS = tc.vlan, nil })
			n.mustAttach(t, s)
			link := pod.Link(t, "net1")
			if a := link.Attrs(); a.Alias != vf.Address || !hasMAC(link, s.MAC) || a.Flags&net.FlagUp == 0 {
				t.Errorf("the interface is a %s: %+v", link.Type(), a)
			}
			if vlan, ok := link.(*netlink.Vlan); ok && vlan.VlanId != 7 {
				t.Errorf("its VLAN is %d", vlan.VlanId)
			}
			kinds := map[string]string{}
			for _, name := range pod.Links(t) {
				kinds[name] = pod.Link(t, name).Type()
			}
			if diff := cmp.Diff(tc.kinds, kinds); diff != "" {
				t.Errorf("devices in the pod (-want +got):\n%s", diff)
			}
			if now, _ := settingsOf(n.adapter.Link(t), vf.Index); now.VLAN != int(tc.vlan) || !now.SpoofCheck || now.MAC.String() != s.MAC.String() {
				t.Errorf("settings are %+v", now)
			}
			if _, err := n.Check(t.Context(), s); err != nil {
				t.Error(err)
			}
			n.start(Config{})
			n.mustDetach(t, s)
			n.asBefore(t, vf, before)
			if left := pod.Links(t); len(left) != 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

func TestSRIOV_NodeNetwork_RefusedUnlessPermitted(t *testing.T) {
	n := newNode(t, 1)
	vf := n.vfs[0]
	before := n.stateOf(t, vf)
	addr, err := netlink.ParseAddr("192.0.2.200/24")
	if err != nil {
		t.Fatal(err)
	}
	link := n.adapter.Link(t)
	if err := netlink.AddrAdd(link, addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.AddrDel(link, addr) })
	pod := netnstest.New(t)
	untagged := spec(pod, vf, func(s *ifdriver.Spec) { s.VLAN, s.VF.QoS = 0, nil })
	if _, err := n.Attach(t.Context(), untagged); err == nil || !strings.Contains(err.Error(), "carries the node's address 192.0.2.200") ||
		!strings.Contains(err.Error(), "underlayAttachments") {
		t.Errorf("without a VLAN: %v", err)
	}
	n.asBefore(t, vf, before)
	n.mustAttach(t, spec(pod, vf))
	n.mustDetach(t, spec(pod, vf))
	tagged := spec(pod, vf)
	onVLAN := &netlink.Vlan{
		LinkAttrs: netlink.LinkAttrs{
			Name:        "ofnode",
			ParentIndex: link.Attrs().Index,
			TxQLen:      -1,
		}, VlanId: int(tagged.VLAN), VlanProtocol: netlink.VLAN_PROTOCOL_8021Q,
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.IP{198, 51, 100, 200}, Mask: net.CIDRMask(24, 32)}}
	if err := errors.Join(netlink.LinkAdd(onVLAN), netlink.AddrAdd(onVLAN, address)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(onVLAN) })
	if _, err := n.Attach(t.Context(), tagged); err == nil || !strings.Contains(err.Error(), "198.51.100.200 (on ofnode)") {
		t.Errorf("in the VLAN of the node: %v", err)
	}
	n.start(Config{Underlay: true})
	n.mustAttach(t, untagged)
	n.mustDetach(t, untagged)
	n.asBefore(t, vf, before)
}

func TestSRIOV_DeviceRemoved_NoteRemoved(t *testing.T) {
	n := newNode(t, 1)
	pod := netnstest.New(t)
	s := spec(pod, n.vfs[0], func(s *ifdriver.Spec) { s.PCI = n.vfs[0].Address })
	n.mustAttach(t, s)
	gone := note{Interface: n.noted(t, s).Interface, PCI: "0000:ff:00.0"}
	if err := n.notes.Put(gone); err != nil {
		t.Fatal(err)
	}
	n.mustDetach(t, s)
	if _, ok, err := n.notes.Get(s.ContainerID, s.IfName); ok || err != nil {
		t.Errorf("a note about a device that the node does not have stays: %v", err)
	}
}

func TestSRIOV_Uninstall_DevicesRestored(t *testing.T) {
	if err := ReleaseAll(t.Context(), t.TempDir()); err != nil {
		t.Errorf("a node without devices: %v", err)
	}
	n := newNode(t, 2)
	pods := []*netnstest.Namespace{netnstest.New(t), netnstest.New(t)}
	var before []state
	for i, vf := range n.vfs {
		before = append(before, n.stateOf(t, vf))
		n.mustAttach(t, spec(pods[i], vf, func(s *ifdriver.Spec) { s.ContainerID, s.MAC[5] = vf.Address, byte(i) }))
	}
	pods[0].Close(t)
	if err := ReleaseAll(t.Context(), n.dir); err != nil {
		t.Fatal(err)
	}
	for i, vf := range n.vfs {
		n.asBefore(t, vf, before[i])
	}
}

func (n *node) noted(t *testing.T, s ifdriver.Spec) note {
	t.Helper()
	one, ok, err := n.notes.Get(s.ContainerID, s.IfName)
	if !ok || err != nil {
		t.Fatalf("no note: %v", err)
	}
	return one
}
