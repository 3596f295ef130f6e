// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair_test

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/pair"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// TestHostEnd_Send_NoNeighbourQuery shows a basis of the datapath's programs: the node sends an IP
// packet to a pod at once, never an ARP request or a neighbour solicitation, and addresses it to
// the host end's own MAC.
func TestHostEnd_Send_NoNeighbourQuery(t *testing.T) { everyKind(t, testTheHostEndSendsWithoutAsking) }

func testTheHostEndSendsWithoutAsking(t *testing.T, kind pair.Devices) {
	n, pod := newNode(t, kind), netnstest.New(t)
	s := spec(pod)
	made, err := n.attacher.Attach(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var frames int
	pod.Do(t, func() error {
		frames, err = capture("eth0")
		return err
	})
	t.Cleanup(func() { _ = unix.Close(frames) })
	n.Do(t, func() error {
		for _, dst := range []string{"169.254.64.9/32", "fd41:6c69:6f74:6801::9/128"} {
			prefix, err := netlink.ParseIPNet(dst)
			if err != nil {
				return err
			}
			if err := netlink.RouteAdd(&netlink.Route{LinkIndex: made.HostIfindex, Dst: prefix}); err != nil {
				return err
			}
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, own := range []string{"169.254.64.1/32", "fd41:6c69:6f74:6801::1/128"} {
			addr, err := netlink.ParseAddr(own)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(lo, addr); err != nil {
				return err
			}
		}
		return errors.Join(netlink.LinkSetUp(lo), send("169.254.64.9:7"), send("[fd41:6c69:6f74:6801::9]:7"))
	})
	seen := map[uint16]bool{}
	for !seen[unix.ETH_P_IP] || !seen[unix.ETH_P_IPV6] {
		frame := make([]byte, 2048)
		size, _, err := unix.Recvfrom(frames, frame, 0)
		if err != nil {
			t.Fatalf("no more frames, saw %v: %v", seen, err)
		}
		frame = frame[:size]
		kind := uint16(frame[12])<<8 | uint16(frame[13])
		udp := kind == unix.ETH_P_IP && frame[23] == unix.IPPROTO_UDP || kind == unix.ETH_P_IPV6 && frame[20] == unix.IPPROTO_UDP
		switch {
		case kind == unix.ETH_P_ARP, kind == unix.ETH_P_IPV6 && frame[20] == unix.IPPROTO_ICMPV6 && frame[54] == 135:
			t.Fatalf("the host end asks for a neighbour: % x", frame)
		case udp && !bytes.Equal(frame[:6], hostMAC):
			t.Errorf("a packet is addressed to % x", frame[:6])
		}
		seen[kind] = seen[kind] || udp
	}
}

// capture returns a packet socket for all frames that a device gets, with a
// bound on how long a read may block.
func capture(device string) (int, error) {
	link, err := net.InterfaceByName(device)
	if err != nil {
		return -1, err
	}
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
	// Without a protocol, which bind sets: the frames of all devices would come until then.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return fd, errors.Join(
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}))
}

func send(to string) error {
	conn, err := net.DialTimeout("udp", to, time.Second)
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte("hello"))
	return errors.Join(err, conn.Close())
}
