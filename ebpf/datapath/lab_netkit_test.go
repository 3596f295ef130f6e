// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"strconv"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// podDevice is what the interfaces of a lab's pods are.
type podDevice string

const (
	vethPair   podDevice = "veth"
	netkitPair podDevice = "netkit"
	// eitherPair gives every other pod a netkit, as on a node whose setting was
	// changed while pods ran.
	eitherPair podDevice = "veth and netkit"
)

func (d podDevice) isNetkit(slot int) bool {
	return d == netkitPair || d == eitherPair && slot%2 == 1
}

// join makes a pod's pair from within the node's namespace, and returns the
// indexes of both ends.
func (d podDevice) join(t *testing.T, slot int, pod netns.NsHandle) (here, there int) {
	t.Helper()
	name := "pod" + strconv.Itoa(slot)
	if !d.isNetkit(slot) {
		return linkTo(t, name, state.VirtualMAC, pod, "eth0", labMTU)
	}
	here = addLink(t, netkit(name, state.VirtualMAC, pod))
	return here, bringUp(t, pod, "eth0")
}

func netkit(name string, mac state.MAC, pod netns.NsHandle) *netlink.Netkit {
	host, end := netlink.NewLinkAttrs(), netlink.NewLinkAttrs()
	host.Name, host.MTU, host.HardwareAddr = name, labMTU, mac[:]
	end.Name, end.MTU, end.Namespace = "eth0", labMTU, netlink.NsFd(pod)
	pair := &netlink.Netkit{
		LinkAttrs: host, Mode: netlink.NETKIT_MODE_L2,
		Policy: netlink.NETKIT_POLICY_FORWARD, PeerPolicy: netlink.NETKIT_POLICY_BLACKHOLE,
		Scrub: netlink.NETKIT_SCRUB_DEFAULT, PeerScrub: netlink.NETKIT_SCRUB_DEFAULT,
	}
	pair.SetPeerAttrs(&end)
	return pair
}

// needNetkit skips a test for which the kernel is too old, or was built without.
func needNetkit(t *testing.T) {
	t.Helper()
	inNetns(t)
	err := netlink.LinkAdd(netkit("probe", state.VirtualMAC, newNs(t)))
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("missing feature: netkit (Linux 6.7)")
	}
	Must(t, err)
}

// onEveryDevice runs a test with each kind of device that a pod can have.
func onEveryDevice(t *testing.T, test func(*testing.T, podDevice)) {
	t.Helper()
	t.Run(string(vethPair), func(t *testing.T) { test(t, vethPair) })
	t.Run(string(netkitPair), func(t *testing.T) {
		needNetkit(t)
		test(t, netkitPair)
	})
}

func TestPodsWithDifferentDevicesTalk(t *testing.T) {
	needNetkit(t)
	testPodsOfAVPCTalkOnOneNodeAndAcrossNodes(t, eitherPair)
}

// TestAFrameIsWhatTheKernelTakesItFor is about pods that tell their kernel
// something else than the frame says. Where it is received the kernel looks for
// itself; a netkit pair hands on what it was told.
func TestAFrameIsWhatTheKernelTakesItFor(t *testing.T) {
	onEveryDevice(t, func(t *testing.T, device podDevice) {
		l, red, _ := twoTenants(t, device)
		from, to := red[10], red[20]
		frame := frame{
			EthDst: state.VirtualMAC, EthSrc: state.MAC{2, 0, 10, 0, 1, 10}, Src: from.addrs[0], Dst: to.addrs[0],
			L4: udp{Sport: 1, Dport: 9000, Payload: []byte("framed")},
		}.bytes()
		var inject func(frame []byte)
		in(t, from.ns, func() { inject = behindATunnel(t, from.peer) })
		for name, c := range map[string]struct {
			send   func()
			honest bool
		}{
			"as it is":         {func() { sendRaw(t, from.peer, frame) }, true},
			"another protocol": {func() { sendAs(t, from.peer, frame, unix.ETH_P_IPV6) }, false},
			"a VLAN's protocol, which moves the IP header": {func() { sendAs(t, from.peer, frame, unix.ETH_P_8021Q) }, false},
			"an IP header in the place of Ethernet's":      {func() { inject(frame) }, false},
		} {
			reason := "from_pod/bad_header"
			if c.honest || device == vethPair {
				reason = "from_pod/forwarded_remote"
			}
			before := counts(t, l.nodes[0].d)
			in(t, from.ns, c.send)
			eventually(t, name+" is "+reason, func() bool { return added(before, counts(t, l.nodes[0].d))[reason] == 1 })
		}
	})
}

// sendAs sends a frame of which the kernel is told that it is of a protocol.
func sendAs(t *testing.T, ifindex int, b []byte, protocol uint16) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	Must(t, err)
	defer unix.Close(fd)
	err = unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: ifindex, Protocol: bpf.NetworkOrder(protocol)})
	if !errors.Is(err, unix.ENOBUFS) {
		Must(t, err)
	}
}

// behindATunnel returns a way to send frames out of a device of which the kernel
// believes that they begin with an IP header: they come from a device for bare IP
// packets, from which everything is redirected.
func behindATunnel(t *testing.T, ifindex int) (inject func(frame []byte)) {
	t.Helper()
	tun := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tun"}, Mode: netlink.TUNTAP_MODE_TUN, Queues: 1, Flags: netlink.TUNTAP_TUN_EXCL}
	from := addLink(t, tun)
	t.Cleanup(func() { tun.Fds[0].Close() })
	Must(t, netlink.QdiscAdd(&netlink.GenericQdisc{QdiscType: "clsact", QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: from, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}))
	err := netlink.FilterAdd(&netlink.MatchAll{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: from, Parent: netlink.HANDLE_MIN_INGRESS, Priority: 1, Protocol: unix.ETH_P_ALL},
		Actions:     []netlink.Action{netlink.NewMirredAction(ifindex)},
	})
	if errors.Is(err, unix.ENOENT) {
		t.Skip("missing feature: matchall filters with mirred actions")
	}
	Must(t, err)
	return func(frame []byte) {
		info := []byte{0, 0, 0x08, 0x00} // struct tun_pi: flags, protocol
		if _, err := tun.Fds[0].Write(append(info, frame...)); err != nil {
			t.Errorf("write to the tunnel: %v", err)
		}
	}
}
