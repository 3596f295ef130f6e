// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/test/waits"
)

// snooping makes a switch that sends IPv6 multicast only to ports where a listener has been
// reported.
func snooping(t *testing.T) ns.NetNS {
	t.Helper()
	space := testnet.New(t)
	testnet.In(t, space, func() error {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0); err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "switch"
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
			return err
		}
		link, err := netlink.LinkByName("switch")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetUp(link), netlink.AddrAdd(link, switchAddress()), queries(link.Attrs().Index))
	})
	return space
}

// switchAddress is the source of the queries of a switch. The one that the kernel adds comes
// with the first port at the earliest. If it comes after that port's first query, the next
// query is sent half a minute later, and until then the switch sends multicast everywhere.
func switchAddress() *netlink.Addr {
	return &netlink.Addr{
		IPNet: &net.IPNet{IP: net.ParseIP("fe80::1"), Mask: net.CIDRMask(64, 128)},
		Flags: unix.IFA_F_NODAD,
	}
}

// queries has a switch ask who listens, and believe soon that all have answered. It asks by
// version 2 of the protocol (RFC 3810): by version 1 a host that leaves a group before its
// first reply does not report it.
func queries(ifindex int) error {
	moment := make([]byte, 8)
	binary.NativeEndian.PutUint64(moment, 10) // in hundredths of a second
	soon := map[int][]byte{
		unix.IFLA_BR_MCAST_MLD_VERSION:        {2},
		nl.IFLA_BR_MCAST_QUERY_RESPONSE_INTVL: moment, nl.IFLA_BR_MCAST_LAST_MEMBER_INTVL: moment,
	}
	return errors.Join(configureSwitch(ifindex, soon), configureSwitch(ifindex, map[int][]byte{nl.IFLA_BR_MCAST_QUERIER: {1}}))
}

func configureSwitch(ifindex int, settings map[int][]byte) error {
	request := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	request.AddData(&nl.IfInfomsg{IfInfomsg: unix.IfInfomsg{Family: unix.AF_UNSPEC, Index: int32(ifindex)}})
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	for kind, value := range settings {
		data.AddRtAttr(kind, value)
	}
	request.AddData(info)
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// plug makes a device of a switch its port.
func plug(t *testing.T, space ns.NetNS, port string) {
	t.Helper()
	testnet.In(t, space, func() error {
		master, err := netlink.LinkByName("switch")
		if err != nil {
			return err
		}
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		return netlink.LinkSetMaster(link, master)
	})
}

// asker sends to a group and, behind that, to the listener itself.
type asker struct {
	from, to      ns.NetNS
	group, direct *net.UDPAddr
	heard         int // a packet socket of the listener's
}

func newAsker(t *testing.T, from, to ns.NetNS, group [16]byte, direct string) *asker {
	t.Helper()
	a := &asker{
		from: from, to: to,
		group:  &net.UDPAddr{IP: group[:], Zone: "eth0", Port: 9},
		direct: &net.UDPAddr{IP: net.ParseIP(direct), Port: 9},
	}
	var mac net.HardwareAddr
	testnet.In(t, to, func() (err error) {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		mac = link.Attrs().HardwareAddr
		a.heard, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(unix.ETH_P_IPV6>>8|unix.ETH_P_IPV6&0xff<<8))
		if err != nil {
			return err
		}
		return unix.SetsockoptTimeval(a.heard, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
	})
	t.Cleanup(func() { unix.Close(a.heard) })
	testnet.In(t, from, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: a.direct.IP, HardwareAddr: mac})
	})
	return a
}

// passes reports whether the switch forwards packets of the group to the listener. A packet
// to the listener itself follows: it always arrives, and ends the wait.
func (a *asker) passes() (passes bool, err error) {
	text := fmt.Appendf(nil, "at %d", time.Now().UnixNano())
	err = a.from.Do(func(ns.NetNS) error {
		conn, err := net.ListenUDP("udp6", nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		return onOneCPU(func() error {
			_, first := conn.WriteToUDP(text, a.group)
			_, second := conn.WriteToUDP(text, a.direct)
			return errors.Join(first, second)
		})
	})
	buffer := make([]byte, 2048)
	for err == nil {
		var n int
		n, _, err = unix.Recvfrom(a.heard, buffer, 0)
		if err != nil || !bytes.HasSuffix(buffer[:n], text) {
			continue
		}
		if bytes.Equal(buffer[24:40], a.direct.IP) {
			return passes, nil
		}
		passes = true
	}
	return passes, err
}

// onOneCPU calls f on one processor. The receiving ends of devices have a queue for each
// processor, so that packets of a thread which moves between two of them change places.
func onOneCPU(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if before.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	return errors.Join(f(), unix.SchedSetaffinity(0, &before))
}

// await waits until the switch lets it pass, or does no longer.
func (a *asker) await(t *testing.T, want bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(waits.Limit(20 * time.Second)); time.Now().Before(end); <-again.C {
		passes, err := a.passes()
		if err != nil {
			t.Fatal(err)
		}
		if passes == want {
			return
		}
	}
	t.Fatalf("what is sent to the group passes: %v, want %v", !want, want)
}

func TestMulticastGroups_SnoopingSwitch_SolicitationsPass(t *testing.T) {
	here, there, between := testnet.New(t), testnet.New(t), snooping(t)
	testnet.Veth(t, here, "eth0", []string{"2001:db8::1/64"}, between, "port1", nil)
	testnet.Veth(t, there, "eth0", []string{"2001:db8::2/64"}, between, "port2", nil)
	plug(t, between, "port1")
	plug(t, between, "port2")
	announced := netip.MustParseAddr("2001:db8::aa:bb80")
	a := newAsker(t, there, here, solicitedNode(announced), "2001:db8::1")
	var groups Groups
	join := func(ips ...netip.Addr) {
		t.Helper()
		testnet.In(t, here, func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return groups.Join(link.Attrs().Index, ips)
		})
	}
	a.await(t, false)
	join(announced, netip.MustParseAddr("192.0.2.80"))
	a.await(t, true)
	join(announced, netip.MustParseAddr("2001:db8::81")) // which changes nothing for it
	if passes, err := a.passes(); err != nil || !passes {
		t.Errorf("with another address beside it: passes %v, %v", passes, err)
	}
	join()
	a.await(t, false)
}

func TestMulticastGroups_AboveSocketLimit_AllJoined(t *testing.T) {
	space := testnet.New(t)
	testnet.Veth(t, space, "eth0", []string{"2001:db8::1/64"}, testnet.New(t), "eth0", nil)
	var groups Groups
	defer func() { _ = groups.Join(0, nil) }()
	ips := make([]netip.Addr, 0, 3000)
	for ip := netip.MustParseAddr("2001:db8::1:0"); len(ips) < cap(ips); ip = ip.Next() {
		ips = append(ips, ip)
	}
	testnet.In(t, space, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return groups.Join(link.Attrs().Index, ips)
	})
	if len(groups.sockets) != len(ips) {
		t.Errorf("in %d groups of %d", len(groups.sockets), len(ips))
	}
}

func TestMulticastGroup_DeviceGone_FailsAloneAndRetried(t *testing.T) {
	space := testnet.New(t)
	testnet.Veth(t, space, "eth0", []string{"2001:db8::1/64"}, testnet.New(t), "eth0", nil)
	var groups Groups
	testnet.In(t, space, func() error {
		ips := []netip.Addr{netip.MustParseAddr("2001:db8::80")}
		if err := groups.Join(4711, ips); err == nil || len(groups.sockets) != 0 {
			t.Errorf("on no device: %v, %d sockets", err, len(groups.sockets))
		}
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return errors.Join(groups.Join(link.Attrs().Index, ips), groups.Join(link.Attrs().Index, nil))
	})
	if len(groups.sockets) != 0 {
		t.Errorf("%d sockets are left", len(groups.sockets))
	}
}
