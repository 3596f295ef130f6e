// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/trace"
	"github.com/alioth-net/alioth/store"
)

// walk traces a packet over the lab's nodes.
func (l *lab) walk(t *testing.T, from *labPod, to netip.AddrPort) []nodestatus.PacketTrace {
	t.Helper()
	steps, err := l.tryWalk(t, from.node.cfg.NodeName, nodestatus.Question{Pod: "ns/" + from.name, To: to, Proto: unix.IPPROTO_TCP})
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

func (l *lab) tryWalk(t *testing.T, node string, q nodestatus.Question) ([]nodestatus.PacketTrace, error) {
	t.Helper()
	return trace.Walk(t.Context(), func(ctx context.Context, node string, q nodestatus.Question) (nodestatus.PacketTrace, error) {
		for _, m := range l.nodes {
			if m.cfg.NodeName == node {
				return nodestatus.FetchTrace(ctx, m.cfg.socket(), q)
			}
		}
		return nodestatus.PacketTrace{}, errors.New("no such node")
	}, node, q)
}

// Node 1 has a row for an address that node 2 does not have.
func TestTrace_PacketReturned_Shown(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	gone := addressRow("blue", "blue1", "10.10.1.77", "node2", store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "gone", UID: "gone"}, "10.10.1.77")
	l.nodes[0].script.Addresses = append(slices.Clone(l.nodes[0].script.Addresses), gone)
	l.start(t)
	steps := l.walk(t, l.pods["b1"], netip.MustParseAddrPort("10.10.1.77:80"))
	var out strings.Builder
	if err := trace.Write(&out, steps); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"node node1",
		"[forwarded_remote]",
		"node node2",
		"returned to node node1 (192.0.2.1)",
		"[returned]",
		"node node1",
		"DROPPED",
		"[stale_row]",
		"stops here",
	}
	rest := out.String()
	for _, part := range want {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Fatalf("the trace lacks %q behind what comes before it:\n%s", part, out.String())
		}
		rest = after
	}
	if len(steps) != 3 || trace.Delivered(steps) {
		t.Errorf("%d steps, delivered: %t", len(steps), trace.Delivered(steps))
	}
}

func TestTrace_Connection_VerdictsShown(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	for _, c := range []struct {
		name, from, to string
		reasons        string // one for each step
		says           string // at the last
	}{
		{"the same node", "b1", "10.10.2.10", "forwarded_local", "delivered to pod ns/b2"},
		{"another node", "b1", "10.10.1.11", "forwarded_remote forwarded_local", "delivered to pod ns/b3"},
		{"another node, by IPv6", "b1", "fd10:10:0:1::11", "forwarded_remote forwarded_local", "delivered to pod ns/b3"},
		{"the same addresses in another VPC", "r1", "10.10.1.11", "forwarded_remote forwarded_local", "delivered to pod ns/r3"},
		{"an address that only another VPC has", "r1", "10.10.2.10", "no_subnet", "no subnet"},
		{"nobody", "b1", "10.10.1.99", "no_endpoint", "no pod or Service"},
		{"the default VPC", "r1", "10.244.0.20", "egress_closed", "has no egress"},
		{"the outside", "b1", "203.0.113.1", "egress_closed", "has no egress"},
		{"a node, from a tenant", "b1", "192.0.2.2", "egress_closed", "has no egress"},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := l.pods[c.from], netip.MustParseAddr(c.to)
			steps := l.walk(t, from, netip.AddrPortFrom(to, 80))
			if err := trace.Write(t.Output(), steps); err != nil {
				t.Fatal(err)
			}
			var reasons []string
			for _, step := range steps {
				reasons = append(reasons, step.Reason)
			}
			last := steps[len(steps)-1]
			if got := strings.Join(reasons, " "); got != c.reasons || !strings.Contains(last.Does, c.says) {
				t.Errorf("the trace says %s: %s; want %s: %s", got, last.Does, c.reasons, c.says)
			}
			conn, _, err := dialFrom(t, from.NetNS, to)
			if conn != nil {
				conn.Close()
			}
			if connected := err == nil; connected != trace.Delivered(steps) {
				t.Errorf("connected: %t (%v); the trace: %+v", connected, err, steps)
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
