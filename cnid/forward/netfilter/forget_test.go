// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"cmp"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/conntrack"
)

func TestConntrack_FlowLeadsNowhere_Forgotten(t *testing.T) {
	s := testState()
	shared := udpPort("", 7010, pod4)
	shared.Port, shared.Own = 9010, true
	s.HostPorts = []ruleset.HostPort{udpPort("", 7000, pod4), shared}
	s.Frontends = inOrder(
		nodePort("0.0.0.0", places("169.254.64.5:9001", "10.244.0.9:30000"), places("169.254.64.6:9001")),
		ruleset.Frontend{Protocol: unix.IPPROTO_UDP, IP: netip.MustParseAddr(externalAddress), Port: 53, All: places("169.254.64.5:9001")},
		ruleset.Frontend{Protocol: unix.IPPROTO_TCP, IP: netip.MustParseAddr(externalAddress), Port: 80},
	)
	u := placesOf(s, map[netip.Addr]bool{netip.MustParseAddr("192.0.2.1"): true})
	for _, c := range []struct {
		name, asked, answers string
		stale                bool
		client               string // "": a client outside
	}{
		{"to a backend here", "192.0.2.1:30000", "169.254.64.5:9001", false, ""},
		{"to one that only other nodes use", "192.0.2.1:30000", "169.254.64.6:9001", false, ""},
		{"to another node", "192.0.2.1:30000", "10.244.0.9:30000", false, ""},
		{"to a backend that is gone", "192.0.2.1:30000", "169.254.64.7:9001", true, ""},
		{"to another port of a backend", "192.0.2.1:30000", "169.254.64.5:9002", true, ""},
		{"to a node that has none any more", "192.0.2.1:30000", "10.244.0.10:30000", true, ""},
		{"from before there was a frontend", "192.0.2.1:30000", "192.0.2.1:30000", true, ""},
		{"to such a port of somebody else", "198.51.100.1:30000", "198.51.100.1:30000", false, ""},
		{"to an address of its own", externalAddress + ":53", "169.254.64.5:9001", false, ""},
		{"to a backend of such an address that is gone", externalAddress + ":53", "169.254.64.6:9001", true, ""},
		{"to a port of the node", "192.0.2.1:7000", "169.254.64.5:9000", false, ""},
		{"from the node itself to such a port", "192.0.2.1:7000", "169.254.64.5:9000", true, "192.0.2.1"},
		{"from its loopback", "127.0.0.1:7000", "169.254.64.5:9000", true, "127.0.0.1"},
		{"from the node itself to a port that is its, too", "192.0.2.1:7010", "169.254.64.5:9010", false, "192.0.2.1"},
		{"to a port of the node that is closed", "192.0.2.1:7001", "169.254.64.5:9003", true, ""},
		{"from the node to a shadow", "169.254.64.5:9004", "169.254.64.5:9004", false, ""},
		{"somebody else's translation", "10.96.0.10:53", "10.244.0.20:53", false, ""},
	} {
		if got := u.stale(netip.MustParseAddr(cmp.Or(c.client, "192.0.2.9")), netip.MustParseAddrPort(c.asked), netip.MustParseAddrPort(c.answers)); got != c.stale {
			t.Errorf("%s: to be forgotten is %v, want %v", c.name, got, c.stale)
		}
	}
}

func TestConntrack_UDPBackendGone_MovesToOther(t *testing.T) {
	r := newRig(t, 0)
	r.answerers(t, 9001, 9002)
	var flow, other net.Conn
	dial := func(to string) (conn net.Conn) {
		testnet.In(t, r.outside, func() (err error) {
			conn, err = net.Dial("udp", to)
			return err
		})
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	says := func(conn net.Conn, want string) {
		t.Helper()
		buffer := make([]byte, 16)
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("who?")); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(buffer); err != nil || string(buffer[:n]) != want {
			t.Errorf("%q answered, error %v; want %s", buffer[:n], err, want)
		}
	}
	lead := func(place string, forgotten uint) {
		t.Helper()
		s := testState()
		s.HostPorts = []ruleset.HostPort{{Protocol: unix.IPPROTO_UDP, HostPort: 7000, Port: 9001, Shadow: netip.MustParseAddr(pod4)}}
		s.Frontends = inOrder(nodePort("0.0.0.0", places(place), nil))
		testnet.In(t, r.node, func() error {
			apply(t, s)
			count, err := Forget(nil, s)
			if count != forgotten {
				t.Errorf("%d flows were forgotten, want %d", count, forgotten)
			}
			return err
		})
	}
	lead("169.254.64.5:9001", 0)
	flow, other = dial("192.0.2.1:30000"), dial("192.0.2.1:7000")
	says(flow, "9001")
	says(other, "9001")
	lead("169.254.64.5:9002", 1)
	says(flow, "9002")
	says(other, "9001")
}

// udpFlowsTo returns how many flows of a family are open to a port, 0: to any.
func (r rig) udpFlowsTo(t *testing.T, family uint8, port uint16) (count int) {
	t.Helper()
	testnet.In(t, r.node, func() error {
		conn, err := conntrack.Open()
		if err != nil {
			return err
		}
		defer conn.Close()
		flows, err := conn.UDP(family, port)
		count = len(flows)
		return err
	})
	return count
}

// sends has a client outside send a datagram, and waits until it is tracked.
func (r rig) sends(t *testing.T, family uint8, to string) {
	t.Helper()
	port := netip.MustParseAddrPort(to).Port()
	before := r.udpFlowsTo(t, family, port)
	testnet.In(t, r.outside, func() error {
		conn, err := net.Dial("udp", to)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("who?"))
		return err
	})
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(patience); r.udpFlowsTo(t, family, port) == before; <-again.C {
		if time.Now().After(end) {
			t.Fatalf("a datagram to %s is not tracked", to)
		}
	}
}

// leading are ports of the node from 30000 on, which lead to a port of a pod.
func leading(ports int, to uint16) ruleset.State {
	s := testState()
	var list []ruleset.Frontend
	for port := range ports {
		for any, place := range map[string]string{"0.0.0.0": pod4, "::": pod6} {
			f := nodePort(any, []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr(place), to)}, nil)
			f.Port += uint16(port)
			list = append(list, f)
		}
	}
	s.FlowsPerShadow, s.Frontends = 0, inOrder(list...)
	return s
}

// TestConntrack_PortsChanged_OnlyTheirFlowsForgotten leads all ports elsewhere, and has fewer of them
// differ from the last state.
func TestConntrack_PortsChanged_OnlyTheirFlowsForgotten(t *testing.T) {
	const ports = 2 * mostPorts
	for _, c := range []struct {
		name    string
		changed int // -1: the last state is not known
		want    uint
	}{
		{"one port", 1, 2},
		{"as many as are asked for one by one", mostPorts, 2 * mostPorts},
		{"more", mostPorts + 1, 2 * (mostPorts + 1)},
		{"nothing", 0, 0},
		{"not known", -1, 2 * ports},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 0)
			testnet.In(t, r.node, func() error {
				apply(t, leading(ports, 9001))
				return nil
			})
			for port := range ports {
				r.sends(t, unix.AF_INET, netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(30000+port)).String())
				r.sends(t, unix.AF_INET6, netip.AddrPortFrom(netip.MustParseAddr("2001:db8::1"), uint16(30000+port)).String())
			}
			now, last := leading(ports, 9002), leading(ports, 9002)
			for _, f := range last.Frontends {
				if int(f.Port) < 30000+c.changed {
					f.All = []netip.AddrPort{netip.AddrPortFrom(f.All[0].Addr(), 9001)}
				}
			}
			known := &last
			if c.changed < 0 {
				known = nil
			}
			testnet.In(t, r.node, func() error {
				count, err := Forget(known, now)
				if count != c.want {
					t.Errorf("%d flows were forgotten, want %d", count, c.want)
				}
				return err
			})
			if left := r.udpFlowsTo(t, unix.AF_INET, 0) + r.udpFlowsTo(t, unix.AF_INET6, 0); left != 2*ports-int(c.want) {
				t.Errorf("%d flows are left, want %d", left, 2*ports-int(c.want))
			}
		})
	}
}

func TestConntrack_AddressesChanged_EveryFlowChecked(t *testing.T) {
	last, now := leading(1, 9001), leading(1, 9001)
	now.Addresses = now.Addresses[:1]
	r := newRig(t, 0)
	testnet.In(t, r.node, func() error {
		apply(t, leading(1, 9002))
		return nil
	})
	r.sends(t, unix.AF_INET, "192.0.2.1:30000")
	for _, c := range []struct {
		last ruleset.State
		want uint
	}{{now, 0}, {last, 1}} {
		testnet.In(t, r.node, func() error {
			count, err := Forget(&c.last, now)
			if count != c.want {
				t.Errorf("%d flows were forgotten, want %d", count, c.want)
			}
			return err
		})
	}
}
