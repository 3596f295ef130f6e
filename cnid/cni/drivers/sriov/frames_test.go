// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

// experimental is the EtherType of the frames (IEEE 802, local experimental EtherType 1).
const experimental = 0x88b5

// packetSocket returns a packet socket of the interface net1 of a pod.
func packetSocket(t *testing.T, pod *netnstest.Namespace) *os.File {
	t.Helper()
	protocol := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, experimental))
	var file *os.File
	pod.Do(t, func() error {
		link, err := netlink.LinkByName("net1")
		if err != nil {
			return err
		}
		// Without a protocol, which bind sets: the frames of all devices would come until then.
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		file = os.NewFile(uintptr(fd), "packets")
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: link.Attrs().Index})
	})
	t.Cleanup(func() { file.Close() })
	return file
}

// frame returns a broadcast frame from an address.
func frame(from net.HardwareAddr) []byte {
	text := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, from...)
	text = binary.BigEndian.AppendUint16(text, experimental)
	return append(text, make([]byte, 46)...)
}

// TestSRIOVAdapter_PodFrames_VLANAndAddressEnforced sends from another VLAN first, until a frame
// of the same one has arrived: what precedes it would have arrived too. The emulated adapter
// takes spoofchk and does not check frames, so nothing is sent in the name of others.
func TestSRIOVAdapter_PodFrames_VLANAndAddressEnforced(t *testing.T) {
	n := newNode(t, 3)
	pods := []*netnstest.Namespace{netnstest.New(t), netnstest.New(t), netnstest.New(t)}
	var specs []ifdriver.Spec
	for i, vlan := range []uint32{7, 7, 8} {
		specs = append(specs, spec(pods[i], n.vfs[i], func(s *ifdriver.Spec) {
			s.ContainerID, s.MAC[5], s.VLAN = n.vfs[i].Address, byte(10+i), vlan
			s.Addrs = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)}), 24)}
		}))
		n.mustAttach(t, specs[i])
	}
	pods[0].Do(t, func() error { // the PF has fixed the address
		if err := netnstest.OnLink("net1", func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, specs[1].MAC) })(); err == nil {
			t.Error("the pod has changed its address")
		}
		return nil
	})
	sender, receiver, foreign := packetSocket(t, pods[0]), packetSocket(t, pods[1]), packetSocket(t, pods[2])
	got := make([]byte, 2048)
	for end := time.Now().Add(waits.Limit(time.Minute)); time.Now().Before(end); {
		for _, one := range []struct {
			by   *os.File
			from net.HardwareAddr
		}{{foreign, specs[2].MAC}, {sender, specs[0].MAC}} {
			// The interface may have no carrier yet.
			_, _ = one.by.Write(frame(one.from))
		}
		if err := receiver.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		for {
			size, err := receiver.Read(got)
			if err != nil {
				break // none for now
			}
			switch from := net.HardwareAddr(got[6:12]).String(); {
			case size < 14:
			case from == specs[0].MAC.String():
				return
			default:
				t.Fatalf("a frame from %s has arrived", from)
			}
		}
	}
	t.Error("no frame that is in order has arrived")
}
