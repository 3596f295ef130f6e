// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/cnid/trace"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

// walk traces a packet over the lab's nodes.
func (l *lab) walk(t *testing.T, from *labPod, to netip.AddrPort) []nodestatus.Hop {
	t.Helper()
	hops, err := l.tryWalk(t, from.node.cfg.NodeName, nodestatus.Question{Pod: "ns/" + from.name, To: to, Proto: unix.IPPROTO_TCP})
	if err != nil {
		t.Fatal(err)
	}
	return hops
}

func (l *lab) tryWalk(t *testing.T, node string, q nodestatus.Question) ([]nodestatus.Hop, error) {
	t.Helper()
	return trace.Walk(t.Context(), func(ctx context.Context, node string, q nodestatus.Question) (nodestatus.Hop, error) {
		for _, m := range l.nodes {
			if m.cfg.NodeName == node {
				return nodestatus.FetchHop(ctx, m.cfg.socket(), q)
			}
		}
		return nodestatus.Hop{}, errors.New("no such node")
	}, node, q)
}

func TestATraceSaysWhatAConnectionDoes(t *testing.T) {
	l := newLab(t)
	l.start(t)
	for _, c := range []struct {
		name, from, to string
		reasons        string // one for each hop
		says           string // at the last
	}{
		{"the same node", "b1", "10.10.2.10", "forwarded_local", "delivered to pod ns/b2"},
		{"another node", "b1", "10.10.1.11", "forwarded_remote forwarded_local", "delivered to pod ns/b3"},
		{"another node, by IPv6", "b1", "fd10:10:0:1::11", "forwarded_remote forwarded_local", "delivered to pod ns/b3"},
		{"the same addresses in another VPC", "r1", "10.10.1.11", "forwarded_remote forwarded_local", "delivered to pod ns/r3"},
		{"an address that only another VPC has", "r1", "10.10.2.10", "no_subnet", "no subnet"},
		{"nobody", "b1", "10.10.1.99", "no_endpoint", "nobody"},
		{"the default VPC", "r1", "10.244.0.20", "egress_closed", "no way to the outside"},
		{"the outside", "b1", "203.0.113.1", "egress_closed", "no way to the outside"},
		{"a node, from a tenant", "b1", "192.0.2.2", "egress_closed", "no way to the outside"},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := l.pods[c.from], netip.MustParseAddr(c.to)
			hops := l.walk(t, from, netip.AddrPortFrom(to, 80))
			if err := trace.Write(t.Output(), hops); err != nil {
				t.Fatal(err)
			}
			var reasons []string
			for _, hop := range hops {
				reasons = append(reasons, hop.Reason)
			}
			last := hops[len(hops)-1]
			if got := strings.Join(reasons, " "); got != c.reasons || !strings.Contains(last.Does, c.says) {
				t.Errorf("the trace says %s: %s; want %s: %s", got, last.Does, c.reasons, c.says)
			}
			conn, _, err := dialFrom(t, from.NetNS, to)
			if conn != nil {
				conn.Close()
			}
			if connected := err == nil; connected != trace.Delivered(hops) {
				t.Errorf("connected: %t (%v); the trace: %+v", connected, err, hops)
			}
		})
	}
	for says, q := range map[string]nodestatus.Question{
		"no pod ns/none":               {Pod: "ns/none", To: netip.MustParseAddrPort("10.10.1.11:80")},
		"no address of the family":     {Pod: "ns/b2", To: netip.MustParseAddrPort("[fd10:10:0:1::11]:80")},
		"with an interface eth9":       {Pod: "ns/b1", Interface: "eth9", To: netip.MustParseAddrPort("10.10.1.11:80")},
		"the frame in the question is": {Tunnel: &nodestatus.Tunnel{VNI: 20, From: netip.MustParseAddr("192.0.2.2"), Frame: make([]byte, 64)}},
	} {
		if _, err := l.tryWalk(t, "node1", q); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

func TestDropsAreToldWithNames(t *testing.T) {
	l := newLab(t)
	l.start(t)
	node := l.nodes[0]
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// A first packet before anybody asks, and one while somebody does.
	sent := map[string]bool{}
	send := func(to string) {
		if !sent[to] {
			sent[to] = true
			if conn, _, err := dialFrom(t, l.pods["b1"].NetNS, netip.MustParseAddr(to)); err == nil {
				conn.Close()
				t.Errorf("%s was reached", to)
			}
		}
	}
	send("10.10.1.99")
	found := errors.New("found")
	var last nodestatus.Drop
	err := nodestatus.FetchDrops(ctx, node.cfg.socket(), true, func(drop nodestatus.Drop) error {
		switch drop.Reason {
		case "no_endpoint":
			last = drop
			send("203.0.113.1")
		case "egress_closed":
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		t.Fatalf("got %v", err)
	}
	text := last.String()
	for _, want := range []string{"node1 VPC blue from pod ns/b1: TCP 10.10.1.10:", " (ns/b1) > 10.10.1.99:80 dropped: nobody", "[no_endpoint]; check"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if age := time.Since(last.Time); age < 0 || age > time.Minute {
		t.Errorf("the drop is %s old", age)
	}
	metrics := node.get(t, "/metrics")
	if want := `alioth_datapath_vpc_dropped_packets_total{direction="from_pod",reason="no_endpoint",vpc="blue"}`; !strings.Contains(metrics, want) {
		t.Errorf("metrics lack %s", want)
	}
}

func TestNobodysAddressIsNoMissingOne(t *testing.T) {
	nobody := func(netip.Addr) string { return "" }
	got := ends(datapath.Tuple{Dst: netip.MustParseAddr("ff02::16")}, nobody).String()
	if want := ":: > ff02::16"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestASlowReaderOfDropsIsToldWhatItMissed(t *testing.T) {
	log := newDropLog("node1", names{}, nil)
	for i := range keptDrops + 10 {
		log.add(nodestatus.Drop{VNI: uint32(i)})
		if i == 4 {
			if drops, next, _ := log.since(0); len(drops) != 5 || next != 5 || drops[0].Missed != 0 {
				t.Errorf("%d drops, next %d, missed %d", len(drops), next, drops[0].Missed)
			}
		}
	}
	drops, next, changed := log.since(5)
	if len(drops) != keptDrops || next != keptDrops+10 || drops[0].Missed != 5 || drops[0].VNI != 10 {
		t.Errorf("%d drops from %d, next %d, missed %d", len(drops), drops[0].VNI, next, drops[0].Missed)
	}
	if drops, _, _ := log.since(next); len(drops) != 0 {
		t.Errorf("%d drops after the last", len(drops))
	}
	log.add(nodestatus.Drop{})
	select {
	case <-changed:
	default:
		t.Error("nobody is told of a drop")
	}
}
