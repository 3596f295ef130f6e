// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"errors"
	"testing"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// AddLink creates a device and returns its index.
func AddLink(t testing.TB, device netlink.Link) int {
	t.Helper()
	if err := netlink.LinkAdd(device); err != nil {
		t.Fatalf("add device %s: %v", device.Attrs().Name, err)
	}
	made, err := netlink.LinkByName(device.Attrs().Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(made); err != nil {
		t.Fatalf("set device %s up: %v", device.Attrs().Name, err)
	}
	return made.Attrs().Index
}

// AddPair creates a veth pair and returns the index of its first end.
func AddPair(t testing.TB, name, peer string) int {
	t.Helper()
	return AddLink(t, &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peer})
}

// AddFragmenter creates the pair that fragments packets, as the configuration wants it.
func AddFragmenter(t testing.TB) (ifindex, peer int) {
	t.Helper()
	ifindex = AddPair(t, "frag", "frag-peer")
	tool, err := ethtool.NewEthtool()
	Must(t, err)
	defer tool.Close()
	Must(t, tool.Change("frag", map[string]bool{
		"tx-checksum-ip-generic": false, "tx-checksum-sctp": false, "tx-tcp-segmentation": false,
		"tx-tcp6-segmentation": false, "tx-udp-segmentation": false, "tx-sctp-segmentation": false,
	}))
	for _, name := range []string{"frag", "frag-peer"} {
		l, err := netlink.LinkByName(name)
		Must(t, err)
		// Without one the kernel sends nothing by itself.
		const noAddress = 1
		Must(t, netlink.LinkSetIP6AddrGenMode(l, noAddress))
		Must(t, netlink.LinkSetMTU(l, 65535))
		Must(t, netlink.LinkSetUp(l))
		peer = l.Attrs().Index
	}
	return ifindex, peer
}

// AddTunnel creates a VXLAN device as the configuration wants it.
func AddTunnel(t testing.TB, name string) int {
	t.Helper()
	return AddLink(t, &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: name}, FlowBased: true, Port: programs.DefaultTunnelPort, UDP6ZeroCSumRx: true,
	})
}

// DeleteDevice deletes a device of the current namespace.
func DeleteDevice(t testing.TB, ifindex int) {
	t.Helper()
	Must(t, netlink.LinkDel(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}))
}

// Netkit describes a netkit pair between the current namespace and a pod's.
func Netkit(name string, mac state.MAC, pod netns.NsHandle) *netlink.Netkit {
	host, end := netlink.NewLinkAttrs(), netlink.NewLinkAttrs()
	host.Name, host.MTU, host.HardwareAddr = name, PodMTU, mac[:]
	end.Name, end.MTU, end.Namespace = "eth0", PodMTU, netlink.NsFd(pod)
	pair := &netlink.Netkit{
		LinkAttrs: host, Mode: netlink.NETKIT_MODE_L2,
		Policy: netlink.NETKIT_POLICY_FORWARD, PeerPolicy: netlink.NETKIT_POLICY_BLACKHOLE,
		Scrub: netlink.NETKIT_SCRUB_DEFAULT, PeerScrub: netlink.NETKIT_SCRUB_DEFAULT,
	}
	pair.SetPeerAttrs(&end)
	return pair
}

// NeedNetkit skips a test if the kernel is too old, or was built without netkit.
func NeedNetkit(t testing.TB) {
	t.Helper()
	InNamespace(t)
	err := netlink.LinkAdd(Netkit("probe", state.VirtualMAC, NewNamespace(t)))
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("missing feature: netkit (Linux 6.7)")
	}
	Must(t, err)
}

// PodMTU is the MTU of pods: 1500 less VXLAN over IPv6.
const PodMTU = 1430

// LinkTo makes a veth pair between the current namespace and another, and
// returns the indexes of both ends.
func LinkTo(t testing.TB, name string, mac state.MAC, other netns.NsHandle, peer string, mtu int) (here, there int) {
	t.Helper()
	here = AddLink(t, &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{
			Name:         name,
			MTU:          mtu,
			HardwareAddr: mac[:],
		}, PeerName: peer, PeerNamespace: netlink.NsFd(other),
	})
	return here, BringUp(t, other, peer)
}

// BringUp sets a device of another namespace up and returns its index there.
func BringUp(t testing.TB, other netns.NsHandle, peer string) (there int) {
	t.Helper()
	In(t, other, func() {
		l, err := netlink.LinkByName(peer)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
		there = l.Attrs().Index
	})
	return there
}

// SetMTU gives a device another MTU, in bytes.
func SetMTU(t testing.TB, ifindex, mtu int) {
	t.Helper()
	link, err := netlink.LinkByIndex(ifindex)
	if err == nil {
		err = netlink.LinkSetMTU(link, mtu)
	}
	if err != nil {
		t.Fatal(err)
	}
}
