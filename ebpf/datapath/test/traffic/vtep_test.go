// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// vtep is a VXLAN device of the host outside, as the kernel makes it, that sends to the
// first node, with a packet socket at it.
type vtep struct{ fd, ifindex int }

func newVTEP(t *testing.T, l *lab.Lab, name string, vni int) *vtep {
	t.Helper()
	v, all := &vtep{}, bpf.NetworkOrder(unix.ETH_P_ALL)
	bpftest.In(t, l.Outside, func() {
		v.ifindex = bpftest.AddLink(t, &netlink.Vxlan{
			LinkAttrs: netlink.LinkAttrs{Name: name}, VxlanId: vni, Port: programs.DefaultTunnelPort, Learning: true,
			SrcAddr: lab.OutsideAddrs[0].AsSlice(), Group: l.Nodes[0].Underlay[0].AsSlice(),
		})
		var err error
		// Without a protocol, which bind sets: the frames of all devices would come until then.
		v.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		bpftest.Must(t, err)
		t.Cleanup(func() { unix.Close(v.fd) })
		bpftest.Must(t, unix.Bind(v.fd, &unix.SockaddrLinklayer{Ifindex: v.ifindex, Protocol: all}))
		bpftest.Must(t, unix.SetsockoptTimeval(v.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(bpftest.Patience.Seconds())}))
	})
	return v
}

func (v *vtep) send(t *testing.T, frame []byte) {
	t.Helper()
	bpftest.Must(t, unix.Sendto(v.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: v.ifindex}))
}

// received returns the next frame that the device has got from the node.
func (v *vtep) received(t *testing.T) []byte {
	t.Helper()
	buf := make([]byte, 2048)
	for {
		n, from, err := unix.Recvfrom(v.fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			t.Fatalf("nothing comes from the node: %v", err)
		}
		if link, ok := from.(*unix.SockaddrLinklayer); ok && link.Pkttype != unix.PACKET_OUTGOING {
			return bytes.Clone(buf[:n])
		}
	}
}

// knowsOutside makes the first node take the host outside for a node.
func knowsOutside(t *testing.T, l *lab.Lab) {
	t.Helper()
	n := l.Nodes[0]
	n.State.Nodes = append(n.State.Nodes, lab.OutsideAddrs[0])
	bpftest.In(t, n.NS, func() { bpftest.Must(t, n.Datapath.Apply(n.State)) })
	bpftest.In(t, l.Outside, func() {
		bpftest.AddRoute(t, &netlink.Route{Dst: bpftest.IPNet(wire.Prefix("192.0.2.0/24")), Gw: lab.RouterAddrs[0].AsSlice()})
	})
}

// A device of the kernel is a peer that knows no class. Its packets count as direct, and come
// back to it once if they have no receiver, with all of their bytes.
func TestKernelVTEP_Peer_PacketsArriveOrReturnOnce(t *testing.T) {
	l, red, _ := lab.TwoTenants(t, lab.Veth)
	knowsOutside(t, l)
	frame := func(dst, text string, source state.MAC) []byte {
		return wire.Frame{
			EthDst: state.MAC{2, 0, 10, 0, 1, 10}, EthSrc: source, Src: wire.IP("10.0.1.50"), Dst: wire.IP(dst),
			L4: wire.UDP{Sport: 7, Dport: 9000, Payload: []byte(text)},
		}.Bytes()
	}
	own := state.MAC{0x5e, 1, 2, 3, 4, 5}
	server, _ := bpftest.UdpPair(t, red[10].NS, red[10].NS, netip.AddrPortFrom(red[10].Addrs[0], 9000))
	for name, vni := range map[string]int{"vtep": lab.VNI1, "foreign": 4242} {
		v := newVTEP(t, l, name, vni)
		if vni == lab.VNI1 {
			v.send(t, frame(red[10].Addrs[0].String(), "to a pod", own))
			buf := make([]byte, 64)
			bpftest.Must(t, server.SetReadDeadline(time.Now().Add(bpftest.Patience)))
			if n, err := server.Read(buf); err != nil || string(buf[:n]) != "to a pod" {
				t.Errorf("the pod has got %q, %v", buf[:n], err)
			}
		}
		before := crossed(t, l.Nodes[0])
		// Packets that are sent on to a role end here; the last one is returned.
		for _, source := range []state.MAC{world.ClassReturned, world.ClassToDivider, world.ClassToBouncer, world.ClassFromBouncer, own} {
			v.send(t, frame("10.0.1.77", "to nobody", source))
		}
		want := frame("10.0.1.77", "to nobody", world.ClassReturned)
		if got := v.received(t); !bytes.Equal(got, want) {
			t.Errorf("%s: the frame comes back as\n%x, want\n%x", name, got, want)
		}
		ends := map[string]uint64{"from_tunnel/returned_foreign": 1, "from_tunnel/not_member": 2, "from_tunnel/wrong_node": 1, "from_tunnel/returned": 1}
		if vni != lab.VNI1 {
			ends = map[string]uint64{"from_tunnel/unknown_vni": 4, "from_tunnel/returned": 1}
		}
		ended := func() map[string]uint64 {
			packets := map[string]uint64{}
			for end, a := range since(before, crossed(t, l.Nodes[0])) {
				packets[end] = a.packets
			}
			delete(packets, "from_tunnel/tunnel_flood") // the kernel's own, when a device comes up
			return packets
		}
		bpftest.Eventually(t, "all have ended", func() bool {
			var sum uint64
			for _, n := range ended() {
				sum += n
			}
			return sum >= 5
		})
		if d := cmp.Diff(ends, ended()); d != "" {
			t.Errorf("%s: ends of packets (-want +got):\n%s", name, d)
		}
	}
}
