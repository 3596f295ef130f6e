// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostlink_test

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cni/drivers/child/childtest"
	"github.com/alioth-net/alioth/cnid/cni/drivers/macvlan"
	"github.com/alioth-net/alioth/cnid/forward/hostlink"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/test/waits"
)

// long is enough for a connection that has to come about, short for one that must not.
const (
	long  = 20 * time.Second
	short = 300 * time.Millisecond
)

// TestVXLAN_PodsOnSeveralNodes_ReachEachOther has two networks with one range of addresses.
func TestVXLAN_PodsOnSeveralNodes_ReachEachOther(t *testing.T) {
	for name, addrs := range map[string][]string{"over IPv4": {"192.0.2.1", "192.0.2.2"}, "over IPv6": {"2001:db8::1", "2001:db8::2"}} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, addrs...)
			for _, n := range []*node{a, b} {
				n.wants(t, vxlan(100, "red"), vxlan(200, "blue"))
				n.pass(t)
				if diff := cmp.Diff([]string{"vx_blue", "vx_red"}, n.links(t)); diff != "" {
					t.Fatalf("links (-want +got):\n%s", diff)
				}
			}
			client := attachPod(t, a, macvlan.Devices.Type(), "vx_red", "10.0.0.1/24")
			childtest.Serve(t, attachPod(t, b, macvlan.Devices.Type(), "vx_red", "10.0.0.2/24"), "red")
			childtest.Serve(t, attachPod(t, b, macvlan.Devices.Type(), "vx_blue", "10.0.0.3/24"), "blue")
			if answer, err := childtest.Ask(t, client, "10.0.0.1", "10.0.0.2", long); answer != "red" {
				t.Errorf("the pod of the same network answers %q, %v", answer, err)
			}
			if answer, err := childtest.Ask(t, client, "10.0.0.1", "10.0.0.3", short); err == nil {
				t.Errorf("a pod of another network answers %q", answer)
			}
		})
	}
}

// TestHostLink_SecondDevice_PodsReachEachOther: the nodes are known by eth0, and the VXLAN is on
// eth1, whose addresses they report. An address that goes first is not one of these.
func TestHostLink_SecondDevice_PodsReachEachOther(t *testing.T) {
	for name, addrs := range map[string][2]string{"over IPv4": {"198.51.100.1/24", "198.51.100.2/24"}, "over IPv6": {"2001:db8:1::1/64", "2001:db8:1::2/64"}} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			childtest.Wire(t, a.Namespace, "eth1", b.Namespace, "eth1")
			nodes := []*node{a, b}
			for i, n := range nodes {
				n.Do(t, func() error { return childtest.AddAddrs("eth1", "203.0.113.9/32", addrs[i]) })
				n.wants(t, hostLink(multinet.LinkID{Device: "eth1", Type: multinet.VXLAN, VNI: 100}, "red"))
				n.pass(t)
			}
			for i, n := range nodes {
				n.hears(t, nodes[1-i])
				n.pass(t)
				if diff := cmp.Diff(strings.Split(addrs[1-i], "/")[:1], peersOf(t, n, "vx_red")); diff != "" {
					t.Errorf("nodes (-want +got):\n%s", diff)
				}
			}
			client := attachPod(t, a, macvlan.Devices.Type(), "vx_red", "10.0.0.1/24")
			childtest.Serve(t, attachPod(t, b, macvlan.Devices.Type(), "vx_red", "10.0.0.2/24"), "red")
			if answer, err := childtest.Ask(t, client, "10.0.0.1", "10.0.0.2", long); answer != "red" {
				t.Errorf("the pod of the same network answers %q, %v", answer, err)
			}
		})
	}
}

// TestVXLAN_UDPPort_MatchesDANM also checks the default port of the kernel, beside a tunnel with another port.
func TestVXLAN_UDPPort_MatchesDANM(t *testing.T) {
	for name, ports := range map[string]struct{ links, tunnel uint16 }{"of DANM": {4789, 8472}, "of the kernel": {8472, 4789}} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			for _, n := range []*node{a, b} {
				n.port = ports.links
				n.start(t)
				n.Do(t, func() error {
					return netlink.LinkAdd(
						&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "alioth_vxlan", TxQLen: -1, Flags: net.FlagUp}, FlowBased: true, Port: int(ports.tunnel)},
					)
				})
				n.wants(t, vxlan(100, "red"))
				n.pass(t)
				if link, ok := n.link(t, "vx_red").(*netlink.Vxlan); !ok || link.Port != int(ports.links) {
					t.Fatalf("the link is %+v", link)
				}
			}
			client := attachPod(t, a, macvlan.Devices.Type(), "vx_red", "10.0.0.1/24")
			childtest.Serve(t, attachPod(t, b, macvlan.Devices.Type(), "vx_red", "10.0.0.2/24"), "red")
			if answer, err := childtest.Ask(t, client, "10.0.0.1", "10.0.0.2", long); answer != "red" {
				t.Errorf("the pod of the same network answers %q, %v", answer, err)
			}
		})
	}
}

func TestVXLAN_MTU_LeavesHeaderRoom(t *testing.T) {
	for name, c := range map[string]struct {
		addrs     []string
		mtu, want int
	}{
		"over IPv4": {want: 1450}, "over IPv6": {addrs: []string{"2001:db8::1", "2001:db8::2"}, want: 1430},
		"a smaller one": {mtu: 1300, want: 1300}, "a larger one": {mtu: 9000, want: 1450},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := pair(t, c.addrs...)
			row := vxlan(100, "red")
			row.MTU = c.mtu
			a.wants(t, row)
			a.pass(t)
			if got := a.link(t, "vx_red").Attrs(); got.MTU != c.want || got.Flags&net.FlagUp == 0 {
				t.Errorf("MTU %d, flags %s, want MTU %d", got.MTU, got.Flags, c.want)
			}
			row.MTU = 1200
			index := a.link(t, "vx_red").Attrs().Index
			a.wants(t, row)
			a.pass(t)
			if got := a.link(t, "vx_red").Attrs(); got.MTU != 1200 || got.Index != index {
				t.Errorf("after a change of the network: MTU %d of device %d, want 1200 of device %d", got.MTU, got.Index, index)
			}
		})
	}
}

// TestVXLAN_UnknownSenderOrVNI_Dropped sends whole VXLAN packets. The pod
// that would receive them counts.
func TestVXLAN_UnknownSenderOrVNI_Dropped(t *testing.T) {
	a, b := pair(t)
	b.Do(t, func() error { return childtest.AddAddrs("eth0", "192.0.2.66/24") })
	a.wants(t, vxlan(100, "red"))
	a.pass(t)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	received := func() uint64 { return a.link(t, "vx_red").Attrs().Statistics.RxPackets }
	for _, c := range []struct {
		name, from string
		vni        uint32
		arrives    bool
	}{
		{"a known node", "192.0.2.2", 100, true}, {"an unknown sender", "192.0.2.66", 100, false}, {"an unknown number", "192.0.2.2", 101, false},
	} {
		before := received()
		b.Do(t, func() error { return sendVXLAN(c.from, c.vni) })
		b.Do(t, func() error { return sendVXLAN("192.0.2.2", 100) }) // is behind it on the wire
		want := before + 1
		if c.arrives {
			want++
		}
		for end := time.Now().Add(waits.Limit(long)); received() < want && time.Now().Before(end); <-tick.C {
		}
		if got := received(); got != want {
			t.Errorf("%s: %d packets arrived, want %d", c.name, got-before, want-before)
		}
	}
	var learned []netlink.Neigh
	index := a.link(t, "vx_red").Attrs().Index
	a.Do(t, func() (err error) {
		learned, err = netlink.NeighList(index, unix.AF_BRIDGE)
		return err
	})
	for _, row := range learned {
		if row.IP.String() == "192.0.2.66" {
			t.Errorf("the link has learned %s", &row)
		}
	}
}

// sendVXLAN sends an Ethernet frame (IEEE 802 experimental type) in VXLAN (RFC 7348 section
// 5) from an address of the calling thread's namespace to node a.
func sendVXLAN(from string, vni uint32) error {
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0)),
		net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	packet := []byte{0x08, 0, 0, 0, byte(vni >> 16), byte(vni >> 8), byte(vni), 0}
	packet = append(packet, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 0x88, 0xb5)
	_, err = conn.Write(append(packet, make([]byte, 46)...))
	return err
}

// TestVXLANPort_NodeSocketSends_Dropped is about pods on the network of their node.
func TestVXLANPort_NodeSocketSends_Dropped(t *testing.T) {
	a, b := pair(t)
	for _, n := range []*node{a, b} {
		n.wants(t, vxlan(100, "red"))
		n.pass(t)
	}
	var err error
	b.Do(t, func() error { err = sendVXLAN("192.0.2.2", 100); return nil })
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("got %v, want %v", err, unix.EPERM)
	}
}

func TestHostLink_ClusterNodesChange_Followed(t *testing.T) {
	a, _ := pair(t)
	a.wants(t, vxlan(100, "red"))
	a.pass(t)
	everywhere := func() []string { return peersOf(t, a, "vx_red") }
	if diff := cmp.Diff([]string{"192.0.2.2"}, everywhere()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	a.knows(t, testrows.Node("b", "192.0.2.7"), testrows.Node("c", "192.0.2.3", "2001:db8::3"))
	a.pass(t)
	if diff := cmp.Diff([]string{"192.0.2.3", "192.0.2.7"}, everywhere()); diff != "" {
		t.Errorf("nodes after a change (-want +got):\n%s", diff)
	}
}

func TestHostLink_ForeignChange_Repaired(t *testing.T) {
	for name, harm := range map[string]func(n *node) func() error{
		"deleted": func(*node) func() error { return netnstest.OnLink("vx_red", netlink.LinkDel) },
		"down":    func(*node) func() error { return netnstest.OnLink("vx_red", netlink.LinkSetDown) },
		"another MTU": func(*node) func() error {
			return netnstest.OnLink("vx_red", func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1000) })
		},
		"another VXLAN with its mark": func(n *node) func() error {
			return netnstest.OnLink("vx_red", func(l netlink.Link) error {
				other := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vx_red", TxQLen: -1}, VxlanId: 99, Port: 4444}
				return errors.Join(netlink.LinkDel(l), netlink.LinkAdd(other), netlink.LinkSetAlias(other, l.Attrs().Alias))
			})
		},
		"entries": func(*node) func() error {
			return netnstest.OnLink("vx_red", func(l netlink.Link) error {
				return netlink.NeighDel(&netlink.Neigh{
					LinkIndex: l.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, HardwareAddr: make(net.HardwareAddr, 6), IP: net.IP{192, 0, 2, 2},
				})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			for _, n := range []*node{a, b} {
				n.wants(t, vxlan(100, "red"))
				n.pass(t)
			}
			a.Do(t, harm(a))
			a.start(t) // a daemon that starts finds it too
			a.made = 0
			a.pass(t)
			gone := name == "deleted" || name == "another VXLAN with its mark"
			if a.made > 0 != gone {
				t.Errorf("the loop has reported %d times of a link made", a.made)
			}
			if got := a.link(t, "vx_red").Attrs(); got.MTU != 1450 || got.Flags&net.FlagUp == 0 {
				t.Errorf("the link has MTU %d, flags %s", got.MTU, got.Flags)
			}
			childtest.Serve(t, attachPod(t, b, macvlan.Devices.Type(), "vx_red", "10.0.0.2/24"), "red")
			client := attachPod(t, a, macvlan.Devices.Type(), "vx_red", "10.0.0.1/24")
			if answer, err := childtest.Ask(t, client, "10.0.0.1", "10.0.0.2", long); answer != "red" {
				t.Errorf("the other pod answers %q, %v", answer, err)
			}
		})
	}
}

// TestHostLink_DaemonRestart_Adopted: names and devices stay although the names would be others now.
func TestHostLink_DaemonRestart_Adopted(t *testing.T) {
	a, _ := pair(t)
	a.wants(t, vxlan(100, "red"))
	a.pass(t)
	index := a.link(t, "vx_red").Attrs().Index
	a.start(t)
	a.wants(t, vxlan(100, "red"), vxlan(200, "red"))
	a.pass(t)
	if got := a.link(t, "vx_red").Attrs().Index; got != index {
		t.Errorf("device %d has become %d", index, got)
	}
	second := a.links(t)
	if len(second) != 2 || !strings.HasPrefix(second[0], "vx_red") || second[0] == second[1] {
		t.Errorf("links are %v", second)
	}
}

func TestHostLink_Unwanted_Removed(t *testing.T) {
	a, _ := pair(t)
	a.Do(t, func() error { // a link of somebody else
		return netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vx_mine", TxQLen: -1}, VxlanId: 7, Port: 4444})
	})
	a.wants(t, vxlan(100, "red"), vxlan(7, "mine"))
	a.pass(t)
	if got := a.links(t); len(got) != 3 {
		t.Fatalf("links are %v, want three, of which a second one for network mine has another name", got)
	}
	used := journal.Record{Interface: journal.Interface{Config: netif.Config{Parent: "eth0", VXLAN: 100}}}
	a.records = []journal.Record{used}
	a.wants(t)
	a.pass(t)
	if diff := cmp.Diff([]string{"vx_mine", "vx_red"}, a.links(t)); diff != "" {
		t.Errorf("links while a pod uses one (-want +got):\n%s", diff)
	}
	a.records = nil
	a.pass(t)
	if diff := cmp.Diff([]string{"vx_mine"}, a.links(t)); diff != "" {
		t.Errorf("links afterwards (-want +got):\n%s", diff)
	}
	if tables := tablesOf(t, a); strings.Contains(tables, hostlink.TableName) {
		t.Errorf("tables are %s", tables)
	}
}

// TestHostLink_DaemonEndsBeforeMark_LinkMarked has a link in the group of unfinished ones.
func TestHostLink_DaemonEndsBeforeMark_LinkMarked(t *testing.T) {
	a, _ := pair(t)
	row := vxlan(100, "red")
	a.Do(t, func() error {
		return netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vx_red", TxQLen: -1, Group: links.Unfinished}, VxlanId: 100, Port: port})
	})
	a.wants(t, row)
	a.pass(t)
	if diff := cmp.Diff([]string{"vx_red"}, a.links(t)); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if l := a.link(t, "vx_red").Attrs(); l.Alias != links.Mark(row.LinkID) || l.Group != 0 {
		t.Errorf("the link has the mark %q and the group %d", l.Alias, l.Group)
	}
}

func TestHostLink_Failures_CauseAndRemedyNamed(t *testing.T) {
	for name, c := range map[string]struct {
		onNode func() error
		row    multinet.HostLink
		reason string
		says   string
	}{
		"no parent":   {row: hostLink(multinet.LinkID{Device: "eth9", Type: multinet.VXLAN, VNI: 5}, "red"), reason: v1alpha1.ParentMissingReason, says: "no device eth9; create it"},
		"parent down": {onNode: netnstest.OnLink("eth0", netlink.LinkSetDown), row: vxlan(5, "red"), reason: v1alpha1.ParentDownReason, says: "set it up"},
		"no address": {
			onNode: func() error { return addEthernet("eth1") },
			row:    hostLink(multinet.LinkID{Device: "eth1", Type: multinet.VXLAN, VNI: 5}, "red"),
			reason: v1alpha1.ParentUnaddressedReason,
			says:   "device eth1 has no IP address",
		},
		"not listed": {
			onNode: func() error { return addEthernet("eth2") },
			row:    hostLink(multinet.LinkID{Device: "eth2", Type: multinet.VXLAN, VNI: 5}, "red"),
			reason: v1alpha1.VXLANDeviceNotListedReason,
			says:   "multiNetwork.vxlanDevices of the chart does not list eth2",
		},
		"no Ethernet": {row: hostLink(multinet.LinkID{Device: "lo", Type: multinet.VXLAN, VNI: 5}, "red"), reason: v1alpha1.ParentUnsuitableReason, says: "not an Ethernet"},
		"number taken": {onNode: func() error {
			return netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "foreign", TxQLen: -1}, VxlanId: 5, Port: port, Learning: true})
		}, row: vxlan(5, "red"), reason: v1alpha1.LinkRefusedReason, says: "another device of the node has VXLAN 5"},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := pair(t)
			if c.onNode != nil {
				a.Do(t, c.onNode)
			}
			a.wants(t, c.row)
			a.pass(t)
			got := a.failed()
			if len(got) != 1 || got[0].Reason != c.reason || !strings.Contains(got[0].Message, c.says) || !got[0].Concerns(c.row.LinkID) {
				t.Errorf("failures are %+v", got)
			}
			rec := journal.Record{Interface: journal.Interface{Config: netif.Config{Parent: c.row.Device, VXLAN: c.row.VNI}}}
			if _, err := a.loop.Name(t.Context(), rec); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("an attachment is told %v", err)
			}
		})
	}
}

// addEthernet makes a device beside eth0, which leads to another one.
func addEthernet(name string) error {
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}, PeerName: name + "peer"}
	return errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link))
}

func TestHostLink_Attachment_LinkMade(t *testing.T) {
	a, _ := pair(t)
	a.wants(t, vxlan(100, "red"))
	rec := journal.Record{Interface: journal.Interface{Config: netif.Config{Parent: "eth0", VXLAN: 100}}}
	for _, state := range []string{"not made yet", "made", "deleted by hand"} {
		if state == "deleted by hand" {
			a.Do(t, netnstest.OnLink("vx_red", netlink.LinkDel))
		}
		name, err := a.loop.Name(t.Context(), rec)
		if err != nil || name != "vx_red" || a.link(t, name).Type() != "vxlan" {
			t.Errorf("%s: got %q, %v", state, name, err)
		}
	}
}

func TestHostLink_Uninstall_ForeignLinksKept(t *testing.T) {
	a, _ := pair(t)
	a.Do(t, func() error { return addEthernet("foreign") })
	a.wants(t, vxlan(100, "red"))
	a.pass(t)
	a.Do(t, hostlink.Uninstall)
	if diff := cmp.Diff([]string{"foreign", "foreignpeer"}, a.links(t)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if tables := tablesOf(t, a); strings.Contains(tables, hostlink.TableName) {
		t.Errorf("tables are %s", tables)
	}
}
