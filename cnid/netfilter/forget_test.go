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

	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/netfilter/ruleset"
)

func TestFlowsThatLeadNowhereAreForgotten(t *testing.T) {
	s := testState()
	shared := udpPort("", 7010, pod4)
	shared.Port, shared.Own = 9010, true
	s.HostPorts = []ruleset.HostPort{udpPort("", 7000, pod4), shared}
	s.Frontends = inOrder(
		nodePort("0.0.0.0", places("169.254.64.5:9001", "10.244.0.9:30000"), places("169.254.64.6:9001")),
		ruleset.Frontend{Protocol: unix.IPPROTO_UDP, IP: netip.MustParseAddr(externalAddress), Port: 53, All: places("169.254.64.5:9001")},
		ruleset.Frontend{Protocol: unix.IPPROTO_TCP, IP: netip.MustParseAddr(externalAddress), Port: 80},
	)
	u := flowsOf(s, map[netip.Addr]bool{netip.MustParseAddr("192.0.2.1"): true})
	for _, c := range []struct {
		name, asked, answers string
		stale                bool
		client               string // "": somebody outside
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

func TestUDPMovesToAnotherBackend(t *testing.T) {
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
			count, err := Forget(s)
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
