// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

var ip = netip.MustParseAddr

func TestFlows_Expired_ForgottenInTheirTime(t *testing.T) {
	const now = 10 * time.Hour
	fin, rst, seen := bpf.AliothConnFlagCONN_FIN, bpf.AliothConnFlagCONN_RST, bpf.AliothConnFlagCONN_SEEN
	for _, c := range []struct {
		name             string
		proto            uint8
		port             uint16
		forward, reverse bpf.AliothConnFlag
		idle             time.Duration
	}{
		{"TCP that nobody answered", state.ProtoTCP, 443, seen, 0, idleOpening},
		{"TCP", state.ProtoTCP, 443, seen, seen, idleEstablished},
		{"TCP closed by one side", state.ProtoTCP, 443, seen | fin, seen, idleEstablished},
		{"TCP closed by both sides", state.ProtoTCP, 443, seen | fin, seen | fin, idleClosing},
		{"TCP that was reset", state.ProtoTCP, 443, seen, seen | rst, idleClosing},
		{"UDP", state.ProtoUDP, 123, 0, 0, idleDatagram},
		{"DNS", state.ProtoUDP, portDNS, seen, seen, idleDNS},
		{"DNS over TCP", state.ProtoTCP, portDNS, seen, seen, idleEstablished},
	} {
		key := bpf.AliothConnKey{
			Vni: 5, Pod: bpf.EncodeAddr(ip("10.0.1.10")), Peer: bpf.EncodeAddr(ip("10.96.0.1")), PodPort: bpf.NetworkOrder(1000),
			PeerPort: bpf.NetworkOrder(c.port), Direction: bpf.AliothConnDirectionCONN_FORWARD, Proto: c.proto,
		}
		reverse := key
		reverse.Direction, reverse.Peer, reverse.PeerPort = bpf.AliothConnDirectionCONN_REVERSE, bpf.EncodeAddr(ip("10.8.1.10")), bpf.NetworkOrder(8443)
		at := func(seen time.Duration) *flow {
			pairs := pairFlows(map[bpf.AliothConnKey]bpf.AliothConn{
				// The older half does not make the flow old.
				key:     {Addr: reverse.Peer, Port: reverse.PeerPort, Ifindex: 7, Flags: c.forward, LastSeen: uint64(seen)},
				reverse: {Addr: key.Peer, Port: key.PeerPort, Ifindex: 7, Flags: c.reverse, LastSeen: 1},
			})
			if len(pairs) != 1 || pairs[key] == nil || pairs[key].reverse != reverse {
				t.Fatalf("%s: entries pair up as %v", c.name, pairs)
			}
			return pairs[key]
		}
		if at(now - c.idle).expired(now) {
			t.Errorf("%s: forgotten after %v", c.name, c.idle)
		}
		if !at(now - c.idle - time.Nanosecond).expired(now) {
			t.Errorf("%s: remembered for more than %v", c.name, c.idle)
		}
	}
}

func TestFlow_OneHalfOnly_ForgottenSoon(t *testing.T) {
	key := bpf.AliothConnKey{Vni: 5, Proto: state.ProtoTCP, Direction: bpf.AliothConnDirectionCONN_REVERSE}
	for _, f := range pairFlows(map[bpf.AliothConnKey]bpf.AliothConn{key: {LastSeen: uint64(time.Hour)}}) {
		if f.expired(time.Hour + time.Second) {
			t.Error("forgotten while its other half may just be written")
		}
		if !f.expired(time.Hour + 2*time.Second) {
			t.Error("remembered without its other half")
		}
	}
}

// TestRemoval_FlowReopenedMeanwhile_RepliesKept removes a flow that a program has opened again since
// the table was read.
func TestRemoval_FlowReopenedMeanwhile_RepliesKept(t *testing.T) {
	key := bpf.AliothConnKey{
		Vni: 5, Pod: bpf.EncodeAddr(ip("10.0.1.10")), Peer: bpf.EncodeAddr(ip("10.96.0.1")), PodPort: bpf.NetworkOrder(1000),
		PeerPort: bpf.NetworkOrder(53), Direction: bpf.AliothConnDirectionCONN_FORWARD, Proto: state.ProtoUDP,
	}
	leads := func(backend string) bpf.AliothConn {
		return bpf.AliothConn{Addr: bpf.EncodeAddr(ip(backend)), Port: bpf.NetworkOrder(5353)}
	}
	former, other := leads("10.8.1.10"), leads("10.8.1.11")
	answers := bpf.AliothConn{Addr: key.Peer, Port: key.PeerPort}
	for name, c := range map[string]struct {
		now  bpf.AliothConn
		left int
	}{
		"to its former backend": {former, 0},
		"to another backend":    {other, 2},
	} {
		t.Run(name, func(t *testing.T) {
			connections, err := ebpf.NewMap(&ebpf.MapSpec{
				Type: ebpf.Hash, KeySize: uint32(binary.Size(key)), ValueSize: uint32(binary.Size(former)), MaxEntries: 8,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer connections.Close()
			table := &Table{connections: connections}
			reverse := counterpart(key, former)
			rows := map[bpf.AliothConnKey]bpf.AliothConn{reverse: answers, key: c.now, counterpart(key, c.now): answers}
			for key, row := range rows {
				if err := connections.Put(key, row); err != nil {
					t.Fatal(err)
				}
			}
			read := pairFlows(map[bpf.AliothConnKey]bpf.AliothConn{reverse: answers})
			if err := table.forget(read[key]); err != nil {
				t.Fatal(err)
			}
			left, err := readEntries[bpf.AliothConn](connections)
			if err != nil || len(left) != c.left {
				t.Errorf("the table has %v, %v, want %d entries", left, err, c.left)
			}
		})
	}
}
