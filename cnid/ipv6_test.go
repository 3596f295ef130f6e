// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/waits"
)

func TestVPC_IPv6Only_PodsReachable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.nodes[0].script
	s.VPCs = append(slices.Clone(s.VPCs), vpcRow("violet", 40, "fd30::/48"))
	s.Subnets = append(slices.Clone(s.Subnets), subnetRow("violet1", "violet", "fd30:0:0:1::/64", "fd30:0:0:1::1"))
	l.addPod(t, &s, 0, "v1", "violet", "violet1", true, "fd30:0:0:1::10/64")
	l.addPod(t, &s, 0, "v2", "violet", "violet1", false, "fd30:0:0:1::11/64")
	l.addPod(t, &s, 1, "v3", "violet", "violet1", true, "fd30:0:0:1::12/64")
	for _, m := range l.nodes {
		m.script = s
	}
	l.start(t)
	for _, name := range []string{"v1", "v2", "v3"} {
		if err := l.cni(t, "ADD", l.pods[name]); err != nil {
			t.Fatal(err)
		}
		l.pods[name].serve(t)
	}
	v1 := l.pods["v1"]
	for _, to := range []string{"v2", "v3"} {
		conn, got, err := dialFrom(t, v1.NetNS, l.pods[to].ip(ipfamily.IPv6))
		if err != nil || got != to {
			t.Fatalf("v1 to %s: %q, %v", to, got, err)
		}
		defer conn.Close()
		if err := sendAndReturn(conn, 1<<18); err != nil {
			t.Errorf("v1 to %s: %v", to, err)
		}
	}
	if _, err := l.nodes[0].probe(t, "[fd30:0:0:1::10]:80"); err != nil {
		t.Errorf("probe: %v", err)
	}
	testnet.In(t, v1.NetNS, func() error {
		for name, want := range map[string]string{"accept_ra": "0", "autoconf": "0"} {
			got, err := os.ReadFile("/proc/sys/net/ipv6/conf/eth0/" + name)
			if err != nil || strings.TrimSpace(string(got)) != want {
				t.Errorf("%s in the pod is %q, %v, want %s", name, got, err, want)
			}
		}
		return netnstest.OnLink("eth0", func(link netlink.Link) error { return errors.Join(neighbours(link), duplicates(link)) })()
	})
	if found := l.differences(t); len(found) > 0 {
		t.Errorf("afterwards: %v", found)
	}
}

// neighbours returns nil when the device has neighbours, all with the one MAC.
func neighbours(link netlink.Link) error {
	list, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_V6)
	known := 0
	for _, n := range list {
		if n.State&unix.NUD_NOARP != 0 || n.HardwareAddr == nil {
			continue
		}
		known++
		if !bytes.Equal(n.HardwareAddr, state.VirtualMAC[:]) {
			err = errors.Join(err, fmt.Errorf("%s is at %s", n.IP, n.HardwareAddr))
		}
	}
	if known == 0 {
		err = errors.Join(err, errors.New("no neighbour is known"))
	}
	return err
}

// duplicates returns nil when a pod finds no duplicates of an address of its own, although all its
// other questions get an answer.
func duplicates(link netlink.Link) error {
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/eth0/accept_dad", []byte("1"), 0); err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP("fd30:0:0:1::99"), Mask: net.CIDRMask(64, 128)}}
	if err := netlink.AddrAdd(link, addr); err != nil {
		return err
	}
	limit := time.After(waits.Limit(20 * time.Second))
	for {
		list, err := netlink.AddrList(link, netlink.FAMILY_V6)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(list, func(a netlink.Addr) bool { return a.IP.Equal(addr.IP) })
		switch {
		case at < 0 || list[at].Flags&unix.IFA_F_DADFAILED != 0:
			return errors.New("the pod takes its own address for a duplicate")
		case list[at].Flags&unix.IFA_F_TENTATIVE == 0:
			return netlink.AddrDel(link, addr)
		}
		select {
		case <-limit:
			return errors.New("the address stays tentative")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestUnderlay_IPv6Only_PodsReachable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, m := range l.nodes {
		m.script.Nodes = []store.Node{nodeRow("node1", "2001:db8::1"), nodeRow("node2", "2001:db8::2")}
	}
	l.start(t)
	if err := l.works(t); err != nil {
		t.Error(err)
	}
	for _, family := range ipfamily.Both {
		conn, got, err := dialFrom(t, l.pods["b1"].NetNS, l.pods["b3"].ip(family))
		if err != nil || got != "b3" {
			t.Fatalf("b1 to b3: %q, %v", got, err)
		}
		defer conn.Close()
		if err := sendAndReturn(conn, 1<<18); err != nil {
			t.Errorf("b1 to %s: %v", conn.RemoteAddr(), err)
		}
	}
	if err := l.pods["b1"].hasMTU(1500 - 70); err != nil {
		t.Error(err)
	}
	if found := l.differences(t); len(found) > 0 {
		t.Errorf("afterwards: %v", found)
	}
}

// The way to the other node is narrower than the network that the pods' MTU
// follows.
func TestIPv4Packet_NarrowIPv6Underlay_FragmentedAndArrives(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, m := range l.nodes {
		m.script.Nodes = []store.Node{nodeRow("node1", "2001:db8::1"), nodeRow("node2", "2001:db8::2")}
	}
	l.start(t)
	testnet.In(t, l.nodes[0].NetNS, netnstest.OnLink("eth0", func(link netlink.Link) error {
		to := &net.IPNet{IP: net.ParseIP("2001:db8::2"), Mask: net.CIDRMask(128, 128)}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: to, MTU: 1280, MTULock: true})
	}))
	from, to := l.pods["b1"], l.pods["b3"]
	var receiver net.PacketConn
	testnet.In(t, to.NetNS, func() (err error) {
		receiver, err = (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", ":7000")
		return err
	})
	defer receiver.Close()
	conn := from.mustDial(t, "udp4", 7001, netip.AddrPortFrom(to.ip(ipfamily.IPv4), 7000))
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
	})
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	sent, got := bytes.Repeat([]byte("alioth"), 230), make([]byte, 1<<16) // which the pod's interface takes in one packet
	eventually(t, "a packet of 1408 bytes arrives", func() error {
		if _, err := conn.Write(sent); err != nil {
			return err
		}
		if err := receiver.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		n, _, err := receiver.ReadFrom(got)
		if err == nil && !bytes.Equal(got[:n], sent) {
			err = fmt.Errorf("%d bytes came that are not those that were sent", n)
		}
		return err
	})
	if n := l.nodes[0].packets(t, `direction="to_tunnel",reason="forwarded_remote"`); n < 2 {
		t.Errorf("%d fragments were sent", n)
	}
}
