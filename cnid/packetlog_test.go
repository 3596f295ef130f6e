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
	"time"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/waits"
)

func TestDropLog_Drop_NamesIncluded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	node := l.nodes[0]
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(20*time.Second))
	defer cancel()
	// A first packet before a client listens, and one while it does.
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
	var last nodestatus.Packet
	err := nodestatus.FetchPackets(ctx, node.cfg.socket(), nodestatus.DropsPath, nodestatus.Watch{Follow: true}, func(drop nodestatus.Packet) error {
		switch { // devices of the node send reports of their own, which are dropped, too
		case drop.Reason == "no_endpoint" && strings.Contains(drop.String(), "10.10.1.99"):
			last = drop
			send("203.0.113.1")
		case drop.Reason == "egress_closed":
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		t.Fatalf("got %v", err)
	}
	text := last.String()
	for _, want := range []string{"node1 VPC blue from pod ns/b1: TCP 10.10.1.10:", " (ns/b1) > 10.10.1.99:80 dropped: no pod or Service", "[no_endpoint]; check"} {
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

// expectFlow makes a flow pass again and again, until a flow's line in the node's reports
// has all of the parts.
func (m *machine) expectFlow(t *testing.T, pass func() error, parts ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(20*time.Second))
	var failed error
	passing := make(chan struct{})
	go func() {
		defer close(passing)
		for ctx.Err() == nil && failed == nil {
			failed = pass()
		}
	}()
	var lines []string
	found := errors.New("found")
	err := nodestatus.FetchPackets(ctx, m.cfg.socket(), nodestatus.FlowsPath, nodestatus.Watch{Follow: true}, func(packet nodestatus.Packet) error {
		line := packet.String()
		lines = append(lines, line)
		lacks := func(part string) bool { return !strings.Contains(line, part) }
		if slices.ContainsFunc(parts, lacks) {
			return nil
		}
		return found
	})
	cancel()
	<-passing
	if !errors.Is(err, found) {
		t.Errorf("no flow has %q: %v; told:\n%s", parts, err, strings.Join(lines, "\n"))
	}
	if failed != nil {
		t.Error(failed)
	}
}

func TestFlowLog_Flow_NamesAndNodesIncluded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	near, far := l.nodes[0], l.nodes[1]
	connect := func(from, to string) func() error {
		return func() error {
			conn, _, err := dialFrom(t, l.pods[from].NetNS, netip.MustParseAddr(to))
			if conn != nil {
				conn.Close()
			}
			return err
		}
	}
	near.expectFlow(t, connect("b1", "10.10.2.10"),
		"node1 VPC blue from pod ns/b1: TCP 10.10.1.10:", "(ns/b1) > 10.10.2.10:80 (ns/b2) passed: delivered on this node [forwarded_local]")
	near.expectFlow(t, connect("r1", "10.10.1.11"), "node1 VPC red from pod ns/r1: TCP 10.10.1.10:",
		"(ns/r1) > 10.10.1.11:80 (ns/r3) in the tunnel 192.0.2.1 (node1) > 192.0.2.2 (node2) passed: sent to another node [forwarded_remote]")
	far.expectFlow(t, connect("r1", "10.10.1.11"), "node2 VPC red from tunnel: TCP 10.10.1.10:",
		"(ns/r1) > 10.10.1.11:80 (ns/r3) in the tunnel 192.0.2.1 (node1) > 192.0.2.2 (node2) passed: delivered on this node")
	far.expectFlow(t, connect("b1", "fd10:10:0:1::11"), "node2 VPC blue from pod ns/b3: TCP [fd10:10:0:1::11]:80 (ns/b3) > [fd10:10:0:1::10]:")

	// A reader of old events gets the reported ones only.
	message := 0
	err := nodestatus.FetchPackets(t.Context(), near.cfg.socket(), nodestatus.FlowsPath, nodestatus.Watch{}, func(packet nodestatus.Packet) error {
		message++
		if !packet.Passed {
			t.Errorf("%s is no flow", packet)
		}
		return nil
	})
	if err != nil || message == 0 {
		t.Errorf("%d flows are kept, %v", message, err)
	}
}

func TestFlowLog_ShadowAddress_BothEndsNamed(t *testing.T) {
	vip := netip.MustParseAddr("10.96.0.10")
	l := newOutsideLab(t, func(s *script) {
		s.Services = []store.Service{{
			Meta: meta("dns"), Namespace: "kube-system", Name: "kube-dns", ClusterIPs: []netip.Addr{vip},
			Ports: []store.ServicePort{{Name: "dns", Protocol: "UDP", Port: 53}},
		}}
		s.Slices = []store.EndpointSlice{{
			Meta: meta("slice"), Namespace: "kube-system", Name: "slice", Service: "kube-dns",
			Endpoints: []store.Endpoint{{Addresses: hostAddrs[:1], Ready: true}},
			Ports:     []store.ServicePort{{Name: "dns", Protocol: "UDP", Port: echoPort}},
		}}
	})
	l.attach(t)
	l.echo(t)
	say := func(network string, to netip.AddrPort) func() error {
		return func() error {
			conn, err := l.green.dial(t, network, 0, to)
			if err != nil {
				return err
			}
			defer conn.Close()
			return says(conn, "hello")
		}
	}
	ask := say("udp", netip.AddrPortFrom(vip, 53))
	l.nodes[0].expectFlow(
		t,
		ask,
		"VPC green from pod ns/green: UDP 10.20.1.10:",
		"(ns/green) > 10.96.0.10:53 (service kube-system/kube-dns) translated to 169.254.",
		"(ns/green) > 203.0.113.9:7000 passed: sent to a shared service [to_stack]",
	)
	l.nodes[0].expectFlow(
		t,
		ask,
		"VPC green to pod ns/green: UDP 203.0.113.9:7000 > 169.254.",
		"(ns/green) translated to 10.96.0.10:53 (service kube-system/kube-dns) > 10.20.1.10:",
		"(ns/green) passed: sent into the VPC from the node [from_stack]",
	)
	l.nodes[0].expectFlow(t, say("tcp", netip.AddrPortFrom(hostAddrs[0], echoPort)), "VPC green from pod ns/green: TCP 10.20.1.10:",
		"(ns/green) > 203.0.113.9:7000 passed: sent to the outside [to_stack]")
}
