// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestPods_DifferentDevices_Connected(t *testing.T) {
	bpftest.NeedNetkit(t)
	testVPCPodsOnOneOrTwoNodesConnected(t, lab.Either)
}

// TestFrame_ProtocolUnlikeHeader_DroppedOnNetkit is about pods that give their kernel another
// protocol than the frame has. Where a frame is received, the kernel reads its header; a
// netkit pair passes on the protocol that the sender has given.
func TestFrame_ProtocolUnlikeHeader_DroppedOnNetkit(t *testing.T) {
	lab.OnEveryDevice(t, func(t *testing.T, device lab.PodDevice) {
		l, red, _ := lab.TwoTenants(t, device)
		from, to := red[10], red[20]
		frame := wire.Frame{
			EthDst: state.VirtualMAC, EthSrc: state.MAC{2, 0, 10, 0, 1, 10}, Src: from.Addrs[0], Dst: to.Addrs[0],
			L4: wire.UDP{Sport: 1, Dport: 9000, Payload: []byte("framed")},
		}.Bytes()
		var inject func(frame []byte)
		bpftest.In(t, from.NS, func() { inject = behindATunnel(t, from.Peer) })
		for name, c := range map[string]struct {
			send   func()
			honest bool
		}{
			"as it is":         {func() { sendRaw(t, from.Peer, frame) }, true},
			"another protocol": {func() { sendAs(t, from.Peer, frame, unix.ETH_P_IPV6) }, false},
			"a VLAN's protocol, which moves the IP header": {func() { sendAs(t, from.Peer, frame, unix.ETH_P_8021Q) }, false},
			"an IP header in the place of Ethernet's":      {func() { inject(frame) }, false},
		} {
			reason := "from_pod/bad_header"
			if c.honest || device == lab.Veth {
				reason = "from_pod/forwarded_remote"
			}
			before := bpftest.Counts(t, l.Nodes[0].Datapath)
			bpftest.In(t, from.NS, c.send)
			bpftest.Eventually(t, name+" is "+reason, func() bool { return bpftest.Added(before, bpftest.Counts(t, l.Nodes[0].Datapath))[reason] == 1 })
		}
	})
}

// sendAs sends a frame with a protocol for the kernel, whatever the frame's own is.
func sendAs(t *testing.T, ifindex int, b []byte, protocol uint16) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	bpftest.Must(t, err)
	defer unix.Close(fd)
	err = unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: ifindex, Protocol: bpf.NetworkOrder(protocol)})
	if !errors.Is(err, unix.ENOBUFS) {
		bpftest.Must(t, err)
	}
}

// behindATunnel returns a way to send frames out of a device whose frames, for the kernel, begin
// with an IP header. They come from a device for bare IP packets, which redirects everything.
func behindATunnel(t *testing.T, ifindex int) (inject func(frame []byte)) {
	t.Helper()
	tun := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tun"}, Mode: netlink.TUNTAP_MODE_TUN, Queues: 1, Flags: netlink.TUNTAP_TUN_EXCL}
	from := bpftest.AddLink(t, tun)
	t.Cleanup(func() { tun.Fds[0].Close() })
	bpftest.Must(t, netlink.QdiscAdd(&netlink.GenericQdisc{QdiscType: "clsact", QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: from, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}))
	err := netlink.FilterAdd(&netlink.MatchAll{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: from, Parent: netlink.HANDLE_MIN_INGRESS, Priority: 1, Protocol: unix.ETH_P_ALL},
		Actions:     []netlink.Action{netlink.NewMirredAction(ifindex)},
	})
	if errors.Is(err, unix.ENOENT) {
		t.Skip("missing feature: matchall filters with mirred actions")
	}
	bpftest.Must(t, err)
	return func(frame []byte) {
		info := []byte{0, 0, 0x08, 0x00} // struct tun_pi: flags, protocol
		if _, err := tun.Fds[0].Write(append(info, frame...)); err != nil {
			t.Errorf("write to the tunnel: %v", err)
		}
	}
}
