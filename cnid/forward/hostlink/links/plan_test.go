// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package links_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

const port = 14789

func on(device, linkType string, vni uint32) multinet.LinkID {
	return multinet.LinkID{Device: device, Type: linkType, VNI: vni}
}

func wanted(id multinet.LinkID, networkID string) links.Wanted {
	return links.Wanted{LinkID: id, NetworkID: networkID}
}

func ips(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// ethernet is a device that is up, with these addresses.
func ethernet(index int, name string, addrs ...string) links.Device {
	return links.Device{Index: index, Names: []string{name}, MTU: 1500, Up: true, Ethernet: true, Addrs: ips(addrs...)}
}

// held is the device of a link on eth0 as Decide wants it.
func held(index int, name string, id multinet.LinkID) links.Device {
	d := links.Device{Index: index, Names: []string{name}, Kind: id.Type, Alias: links.Mark(id), MTU: 1500, Up: true, Ethernet: true, Lower: 2, VNI: id.VNI}
	if id.Type == multinet.VXLAN {
		d.MTU, d.Local, d.Port = 1450, netip.MustParseAddr("192.0.2.1"), port
	}
	return d
}

func stateWith(all ...links.Wanted) links.State {
	return links.State{Wanted: all, Own: ips("192.0.2.1", "2001:db8::1"), Peers: []links.Peer{{Addrs: ips("192.0.2.2", "2001:db8::2")}}}
}

// told is a plan in words, without what stays.
type noted struct{ Delete, Make, Change, Fail []string }

func tell(p links.Plan) (words noted) {
	for _, d := range p.Delete {
		words.Delete = append(words.Delete, d.Names[0])
	}
	for _, l := range p.Make {
		words.Make = append(words.Make, l.Name+" "+l.String())
	}
	for _, c := range p.Change {
		words.Change = append(words.Change, c.Name)
	}
	for _, f := range p.Failures {
		words.Fail = append(words.Fail, f.Device+" "+f.Type+" "+f.Reason)
	}
	return words
}

func TestLinkPlan_Table_DecisionMatches(t *testing.T) {
	eth0 := ethernet(2, "eth0", "192.0.2.1")
	red, blue := on("eth0", "vlan", 100), on("eth0", "vxlan", 200)
	down, small, jumbo := eth0, held(7, "red.100", red), eth0
	down.Up, small.MTU, jumbo.MTU = false, 1000, 9000
	moved, otherPort, sleeping := held(7, "red.100", red), held(8, "vx_blue", blue), held(7, "red.100", red)
	moved.Lower, otherPort.Port, sleeping.Up = 3, 4444, false
	second := held(9, "copy", red)
	unfinished := held(9, "red.100", red)
	unfinished.Alias, unfinished.Group = "", links.Unfinished
	both := []links.Wanted{wanted(red, "red"), wanted(blue, "blue")}
	for name, c := range map[string]struct {
		wanted  []links.Wanted
		devices []links.Device
		want    noted
	}{
		"nothing is there": {wanted: both, devices: []links.Device{eth0}, want: noted{Make: []string{"red.100 VLAN 100 on eth0", "vx_blue VXLAN 200 on eth0"}}},
		"all is there":     {wanted: both, devices: []links.Device{eth0, held(7, "red.100", red), held(8, "vx_blue", blue)}},
		"another name of the parent": {
			wanted:  []links.Wanted{wanted(on("alt", "vlan", 100), "red")},
			devices: []links.Device{{Index: 2, Names: []string{"eth0", "alt"}, MTU: 1500, Up: true, Ethernet: true}},
			want:    noted{Make: []string{"red.100 VLAN 100 on alt"}},
		},
		"no parent":                     {wanted: both, want: noted{Fail: []string{"eth0  ParentMissing"}}},
		"a parent that is down":         {wanted: both[:1], devices: []links.Device{down}, want: noted{Make: []string{"red.100 VLAN 100 on eth0"}, Fail: []string{"eth0  ParentDown"}}},
		"a link that can't be up":       {wanted: both[:1], devices: []links.Device{down, sleeping}, want: noted{Fail: []string{"eth0  ParentDown"}}},
		"a link that somebody set down": {wanted: both[:1], devices: []links.Device{eth0, sleeping}, want: noted{Change: []string{"red.100"}}},
		"a parent that is Alioth's":     {wanted: []links.Wanted{wanted(on("alioth_vxlan", "vlan", 1), "x")}, devices: []links.Device{ethernet(2, "alioth_vxlan")}, want: noted{Fail: []string{"alioth_vxlan  ParentUnsuitable"}}},
		"a parent that is a link":       {wanted: []links.Wanted{wanted(on("eth0", "vlan", 100), "red"), wanted(on("red.100", "vlan", 1), "x")}, devices: []links.Device{eth0, held(7, "red.100", red)}, want: noted{Fail: []string{"red.100  ParentUnsuitable"}}},
		"a parent without an address": {
			wanted:  []links.Wanted{wanted(on("eth1", "vxlan", 1), "x"), wanted(on("eth1", "vlan", 1), "x")},
			devices: []links.Device{ethernet(3, "eth1", "fe80::1")},
			want:    noted{Make: []string{"x.1 VLAN 1 on eth1"}, Fail: []string{"eth1 vxlan ParentUnaddressed"}},
		},
		"a parent with another address":     {wanted: []links.Wanted{wanted(on("eth1", "vxlan", 1), "x")}, devices: []links.Device{ethernet(3, "eth1", "fe80::1", "10.0.0.1")}, want: noted{Make: []string{"vx_x VXLAN 1 on eth1"}}},
		"a device that is there":            {wanted: []links.Wanted{wanted(on("eth0", "device", 0), "")}, devices: []links.Device{eth0}},
		"a device that is missing":          {wanted: []links.Wanted{wanted(on("eth9", "device", 0), "")}, devices: []links.Device{eth0}, want: noted{Fail: []string{"eth9  ParentMissing"}}},
		"a device that is down":             {wanted: []links.Wanted{wanted(on("eth0", "device", 0), "")}, devices: []links.Device{down}, want: noted{Fail: []string{"eth0  ParentDown"}}},
		"another MTU of the link":           {wanted: both[:1], devices: []links.Device{eth0, small}, want: noted{Change: []string{"red.100"}}},
		"another MTU of the parent":         {wanted: both[:1], devices: []links.Device{jumbo, held(7, "red.100", red)}, want: noted{Change: []string{"red.100"}}},
		"an orphan":                         {devices: []links.Device{eth0, held(7, "red.100", red)}, want: noted{Delete: []string{"red.100"}}},
		"a link whose parent lost its fit":  {wanted: both[1:], devices: []links.Device{ethernet(2, "eth0"), held(8, "vx_blue", blue)}, want: noted{Fail: []string{"eth0 vxlan VXLANDeviceNotListed"}}},
		"another parent":                    {wanted: both[:1], devices: []links.Device{eth0, moved}, want: noted{Delete: []string{"red.100"}, Make: []string{"red.100 VLAN 100 on eth0"}}},
		"another port":                      {wanted: both[1:], devices: []links.Device{eth0, otherPort}, want: noted{Delete: []string{"vx_blue"}, Make: []string{"vx_blue VXLAN 200 on eth0"}}},
		"a second device with the mark":     {wanted: both[:1], devices: []links.Device{eth0, held(7, "red.100", red), second}, want: noted{Delete: []string{"copy"}}},
		"the rest of an ended process":      {wanted: both[:1], devices: []links.Device{eth0, unfinished}, want: noted{Delete: []string{unfinished.Names[0]}, Make: []string{"red.100 VLAN 100 on eth0"}}},
		"a foreign device of the name":      {wanted: both[:1], devices: []links.Device{eth0, ethernet(9, "red.100")}, want: noted{Make: []string{"red-0a0a0a.100 VLAN 100 on eth0"}}},
		"the name of a link that goes":      {wanted: []links.Wanted{wanted(on("eth0", "vxlan", 201), "blue")}, devices: []links.Device{eth0, held(8, "vx_blue", blue)}, want: noted{Delete: []string{"vx_blue"}, Make: []string{"vx_blue VXLAN 201 on eth0"}}},
		"a renamed link keeps its new name": {wanted: both[:1], devices: []links.Device{eth0, held(7, "renamed", red)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateWith(c.wanted...)
			s.Listed = []string{"eth1"}
			got := tell(links.Decide(s, c.devices, port))
			if name == "a foreign device of the name" && len(got.Make) == 1 {
				got.Make[0] = strings.Replace(got.Make[0], got.Make[0][4:10], "0a0a0a", 1)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLinkPlan_SharedNetworkID_SeparateLinks is about two tenants.
func TestLinkPlan_SharedNetworkID_SeparateLinks(t *testing.T) {
	s := stateWith(wanted(on("eth0", "vxlan", 1), "net"), wanted(on("eth0", "vxlan", 2), "net"))
	p := links.Decide(s, []links.Device{ethernet(2, "eth0", "192.0.2.1")}, port)
	first, second := p.Links[s.Wanted[0].LinkID].Name, p.Links[s.Wanted[1].LinkID].Name
	if first == second || first == "vx_net" || second == "vx_net" || !strings.HasPrefix(first, "vx_net-") {
		t.Errorf("names are %s and %s", first, second)
	}
}

// TestLinkPlan_ManyOrphans_RemovedInSteps: what an attachment waits for is bounded.
func TestLinkPlan_ManyOrphans_RemovedInSteps(t *testing.T) {
	devices := []links.Device{ethernet(2, "eth0", "192.0.2.1")}
	for i := range 40 {
		devices = append(devices, held(10+i, fmt.Sprint("x.", i+1), on("eth0", "vlan", uint32(i+1))))
	}
	steps := 0
	for more := true; more; steps++ {
		p := links.Decide(stateWith(), devices, port)
		if len(p.Delete) == 0 || len(p.Delete) > 16 {
			t.Fatalf("step %d deletes %d", steps, len(p.Delete))
		}
		devices = slices.DeleteFunc(devices, func(d links.Device) bool {
			return slices.ContainsFunc(p.Delete, func(gone links.Device) bool { return gone.Index == d.Index })
		})
		more = p.More
	}
	if steps != 3 || len(devices) != 1 {
		t.Errorf("after %d steps %d devices are left", steps, len(devices))
	}
}

func TestLinkPlan_VXLAN_FamilyOfLocalAddress(t *testing.T) {
	id := on("eth0", "vxlan", 1)
	for _, c := range []struct {
		has   []string
		local string
		mtu   int
		peers []string
	}{
		{[]string{"2001:db8::1", "192.0.2.1"}, "192.0.2.1", 1450, []string{"192.0.2.2"}},
		{[]string{"2001:db8::1", "192.0.2.9"}, "2001:db8::1", 1430, []string{"2001:db8::2"}},
	} {
		p := links.Decide(stateWith(wanted(id, "x")), []links.Device{ethernet(2, "eth0", c.has...)}, port)
		got := p.Links[id]
		if got.Local != netip.MustParseAddr(c.local) || got.MTU != c.mtu || !slices.Equal(got.Peers, ips(c.peers...)) {
			t.Errorf("with %v: %+v", c.has, got)
		}
	}
}

// TestLinkPlan_VXLANOnOtherDevice_Planned: the nodes know each other by eth0, and report what they have at
// eth1. Node b has nothing else there than its address of eth0.
func TestLinkPlan_VXLANOnOtherDevice_Planned(t *testing.T) {
	id := on("eth1", "vxlan", 1)
	at := func(device string, addrs ...string) multinet.DeviceAddrs {
		return multinet.DeviceAddrs{Device: device, Addrs: ips(addrs...)}
	}
	s := stateWith(wanted(id, "x"), wanted(on("eth1", "vxlan", 2), "y"), wanted(on("eth0", "vxlan", 3), "z"))
	s.Listed = []string{"eth1"}
	s.Peers = []links.Peer{
		{Addrs: ips("192.0.2.2", "2001:db8::2")},
		{Addrs: ips("192.0.2.3"), At: []multinet.DeviceAddrs{at("eth1", "198.51.100.3", "2001:db8:1::3", "198.51.100.250"), at("eth2", "203.0.113.3")}},
	}
	// Reports about devices that are not listed, and about addresses of this node, do not count.
	senders := ips("192.0.2.2", "192.0.2.3", "198.51.100.3", "2001:db8::2", "2001:db8:1::3")
	for _, c := range []struct {
		name    string
		has     []string
		local   string
		peers   []string
		reports []multinet.DeviceAddrs
	}{
		{"both families", []string{"fe80::1", "2001:db8:1::1", "198.51.100.1", "198.51.100.9"}, "198.51.100.1", []string{"192.0.2.2", "198.51.100.3"}, []multinet.DeviceAddrs{at("eth1", "198.51.100.1", "2001:db8:1::1")}},
		{"IPv6 alone", []string{"2001:db8:1::1"}, "2001:db8:1::1", []string{"2001:db8::2", "2001:db8:1::3"}, []multinet.DeviceAddrs{at("eth1", "2001:db8:1::1")}},
		{"an address that the nodes know", []string{"198.51.100.1", "2001:db8::1"}, "2001:db8::1", []string{"2001:db8::2", "2001:db8:1::3"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			devices := []links.Device{ethernet(2, "eth0", "192.0.2.1"), ethernet(3, "eth1", c.has...), ethernet(4, "eth4", "198.51.100.250")}
			p := links.Decide(s, devices, port)
			if !slices.Equal(p.Senders, senders) {
				t.Errorf("senders are %v", p.Senders)
			}
			got := p.Links[id]
			if got.Local != netip.MustParseAddr(c.local) || !slices.Equal(got.Peers, ips(c.peers...)) {
				t.Errorf("the link is %+v", got)
			}
			if diff := cmp.Diff(c.reports, p.Addresses, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("reported addresses (-want +got):\n%s", diff)
			}
			if other := p.Links[on("eth0", "vxlan", 3)]; !slices.Equal(other.Peers, ips("192.0.2.2", "192.0.2.3")) {
				t.Errorf("the link on eth0 is %+v", other)
			}
		})
	}
}

// TestLinkPlan_UnlistedDevice_NoVXLAN, whatever address it has. A VLAN may be
// there, and a VXLAN with an address of the node on each device.
func TestLinkPlan_UnlistedDevice_NoVXLAN(t *testing.T) {
	id, local := on("eth1", "vxlan", 200), netip.MustParseAddr("198.51.100.1")
	link := held(8, "vx_blue", id)
	link.Lower, link.Local = 3, local
	of := func(addrs ...string) []links.Device {
		return []links.Device{ethernet(2, "eth0", "192.0.2.1"), ethernet(3, "eth1", addrs...)}
	}
	refused := noted{Make: []string{"red.100 VLAN 100 on eth1"}, Fail: []string{"eth1 vxlan VXLANDeviceNotListed"}}
	made := noted{Make: []string{"red.100 VLAN 100 on eth1", "vx_blue VXLAN 200 on eth1"}}
	gone := refused
	gone.Delete = []string{"vx_blue"}
	for name, c := range map[string]struct {
		listed  []string
		unknown bool
		devices []links.Device
		want    noted
	}{
		"none is listed":                     {devices: of("198.51.100.1"), want: refused},
		"another one is listed":              {listed: []string{"eth1.5", "eth"}, devices: of("198.51.100.1"), want: refused},
		"the device has no address":          {devices: of(), want: refused},
		"listed":                             {listed: []string{"eth2", "eth1"}, devices: of("198.51.100.1"), want: made},
		"an InternalIP":                      {devices: of("2001:db8::1"), want: made},
		"not listed any more":                {devices: append(of("198.51.100.1"), link), want: gone},
		"not listed, and the node is unread": {unknown: true, devices: append(of("198.51.100.1"), link), want: refused},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateWith(wanted(on("eth1", "vlan", 100), "red"), wanted(id, "blue"))
			if s.Listed = c.listed; c.unknown {
				s.Own = nil
			}
			p := links.Decide(s, c.devices, port)
			if diff := cmp.Diff(c.want, tell(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			for _, f := range p.Failures {
				if !strings.Contains(f.Message, "multiNetwork.vxlanDevices of the chart does not list eth1: add it there") || len(p.Addresses) > 0 {
					t.Errorf("the message is %q, and the reported addresses are %v", f.Message, p.Addresses)
				}
			}
		})
	}
}

// TestLinkPlan_PodsOnDevice_NotNode: no program keeps them from sending with the addresses
// of nodes there, as at the device with the InternalIP.
func TestLinkPlan_PodsOnDevice_NotNode(t *testing.T) {
	s := stateWith(wanted(on("eth1", "vxlan", 1), "x"), wanted(on("eth1", "vlan", 2), "y"), wanted(on("eth0", "vxlan", 3), "z"))
	s.Direct, s.Listed = []string{"alt1", "eth0"}, []string{"eth1"}
	second := ethernet(3, "eth1", "198.51.100.1")
	second.Names = append(second.Names, "alt1")
	got := links.Decide(s, []links.Device{ethernet(2, "eth0", "192.0.2.1"), second}, port)
	want := noted{Make: []string{"vx_z VXLAN 3 on eth0", "y.2 VLAN 2 on eth1"}, Fail: []string{"eth1 vxlan ParentUnsuitable"}}
	slices.Sort(want.Make)
	words := tell(got)
	slices.Sort(words.Make)
	if diff := cmp.Diff(want, words); diff != "" || len(got.Addresses) > 0 {
		t.Errorf("plan with %v (-want +got):\n%s", got.Addresses, diff)
	}
}

func TestLinkState_ObjectsAndAttachments_BothIncluded(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	id := on("eth0", "vlan", 100)
	if err := s.Update(func(tx store.Tx) error {
		self, other, leaving := testrows.Node("self", "192.0.2.1"), testrows.Node("other", "192.0.2.2", "2001:db8::2"), testrows.Node("leaving", "192.0.2.3")
		leaving.Deleting = true
		for _, row := range []*store.Node{&self, &other, &leaving} {
			if err := store.PutNode(tx, row); err != nil {
				return err
			}
		}
		// The report also names the address of self, which does not count.
		report := multinet.LinkReport{Meta: testrows.Meta("other"), Name: "other", Addresses: []multinet.DeviceAddrs{
			{Device: "eth1", Addrs: ips("192.0.2.1", "2001:db8:1::2")}, {Device: "eth2", Addrs: ips("192.0.2.1")}, {Device: "eth3", Addrs: ips("192.0.2.2")},
		}}
		if err := multinet.PutLinkReport(tx, &report); err != nil {
			return err
		}
		name := v1alpha1.HostLinkName(id.Type, id.VNI, id.Device)
		return multinet.PutHostLink(tx, &multinet.HostLink{Meta: testrows.Meta(name), Name: name, LinkID: id, NetworkID: "red", MTU: 1400})
	}); err != nil {
		t.Fatal(err)
	}
	records := []journal.Record{
		{Interface: journal.Interface{Config: netif.Config{Parent: "eth0", VXLAN: 7}}},
		{Interface: journal.Interface{Config: netif.Config{Parent: "eth0", VXLAN: 7}}},
		{Interface: journal.Interface{Config: netif.Config{Parent: "eth0", VLAN: 100}}},
		{Interface: journal.Interface{Config: netif.Config{Parent: "eth0"}}},
		{Interface: journal.Interface{Config: netif.Config{Parent: "eth0"}}},
		{},
	}
	var got links.State
	s.View(func(tx store.ReadTx) { got = links.StateOf(tx, "self", records) })
	want := links.State{
		Wanted: []links.Wanted{{LinkID: id, NetworkID: "red", MTU: 1400}, {LinkID: on("eth0", "vxlan", 7)}},
		Own:    ips("192.0.2.1"),
		Peers: []links.Peer{{Addrs: ips("192.0.2.2", "2001:db8::2"), At: []multinet.DeviceAddrs{
			{Device: "eth1", Addrs: ips("2001:db8:1::2")}, {Device: "eth3", Addrs: ips("192.0.2.2")},
		}}},
		Direct: []string{"eth0"},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" || !got.Equal(want) {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}
