// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
)

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

// expectFlow makes a flow pass again and again, until a line about one that the
// node tells of has all of the parts.
func (m *machine) expectFlow(t *testing.T, pass func() error, parts ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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

func TestFlowsAreToldWithNamesAndNodes(t *testing.T) {
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

	// Who asks for nothing new gets what was told, and no more.
	told := 0
	err := nodestatus.FetchPackets(t.Context(), near.cfg.socket(), nodestatus.FlowsPath, nodestatus.Watch{}, func(packet nodestatus.Packet) error {
		told++
		if !packet.Passed {
			t.Errorf("%s is no flow", packet)
		}
		return nil
	})
	if err != nil || told == 0 {
		t.Errorf("%d flows are kept, %v", told, err)
	}
}

func TestAFlowThroughTheDoorHasTheNamesOfBothSides(t *testing.T) {
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
	l.nodes[0].expectFlow(t, ask, "VPC green from pod ns/green: UDP 10.20.1.10:", "(ns/green) > 10.96.0.10:53 (service kube-system/kube-dns) translated to 169.254.",
		"(ns/green) > 203.0.113.9:7000 passed: sent to a shared service [to_stack]")
	l.nodes[0].expectFlow(t, ask, "VPC green to pod ns/green: UDP 203.0.113.9:7000 > 169.254.", "(ns/green) translated to 10.96.0.10:53 (service kube-system/kube-dns) > 10.20.1.10:",
		"(ns/green) passed: sent into the VPC from the node [from_stack]")
	l.nodes[0].expectFlow(t, say("tcp", netip.AddrPortFrom(hostAddrs[0], echoPort)), "VPC green from pod ns/green: TCP 10.20.1.10:",
		"(ns/green) > 203.0.113.9:7000 passed: sent to the outside [to_stack]")
}

func TestFlowsAreAskedOfTheProgramsWhileSomebodyListens(t *testing.T) {
	asked := make(chan time.Duration, 100)
	log := newPacketLog(packetWords{}, func(d time.Duration) error {
		asked <- d
		return errors.New("no datapath yet")
	}, slog.New(slog.DiscardHandler))
	get := func(ctx context.Context, query string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		log.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/?"+query, http.NoBody))
		return answer
	}
	log.add(nodestatus.Packet{Reason: "forwarded_local"})
	if answer := get(t.Context(), "for=0s"); !strings.Contains(answer.Body.String(), "forwarded_local") {
		t.Errorf("got %q", answer.Body)
	}
	if len(asked) > 0 {
		t.Error("the programs were asked for somebody who does not listen")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		get(ctx, "follow=true")
	}()
	for range 2 {
		if d := <-asked; d <= askEvery {
			t.Errorf("asked for %s, which ends before it is asked again", d)
		}
	}
	stop()
	<-done
	get(t.Context(), "for=1ms") // which ends by itself
	if len(asked) == 0 {
		t.Error("the programs were not asked for somebody who listens for a moment")
	}
}

func TestAnAddressHasTheNameThatItHasOnItsSideOfTheDoor(t *testing.T) {
	s, d := newTestSyncer(t, alwaysSynced), newDecided()
	d.fill(t, s.store)
	key := journal.Key{ContainerID: "p1", IfName: "eth0"}
	if _, err := s.journal.Begin(journal.Record{Identity: journal.Identity{Key: key, Pod: thePod}, Binding: journal.Binding{VPC: "blue", VNI: 20}, Interface: journal.Interface{Addrs: d.said.Addresses}}); err != nil {
		t.Fatal(err)
	}
	rec, err := s.journal.Complete(key, journal.Device{HostIfindex: 7})
	if err != nil {
		t.Fatal(err)
	}
	words := packetWords{names: names{store: s.store, journal: s.journal}, nodeName: "node1", defaultVPC: "default"}
	pod, vip := netip.MustParseAddr("10.10.1.10"), netip.MustParseAddr("10.96.0.10")
	for name, c := range map[string]struct {
		event      datapath.Event
		came, went string
	}{
		"to a service of the VPC": {
			datapath.Event{Reason: datapath.ForwardedLocal, Came: datapath.Tuple{Src: pod, Dst: vip}, Went: datapath.Tuple{Src: pod, Dst: pod}},
			"10.10.1.10 (ns/p1) > 10.96.0.10", "10.10.1.10 (ns/p1) > 10.10.1.10 (ns/p1)",
		},
		"to a service outside, behind which is an equal address": {
			datapath.Event{Reason: datapath.ToStack, Came: datapath.Tuple{Src: pod, Dst: vip}, Went: datapath.Tuple{Src: rec.Shadow4, Dst: pod}},
			"10.10.1.10 (ns/p1) > 10.96.0.10", rec.Shadow4.String() + " (ns/p1) > 10.10.1.10",
		},
		"its answer": {
			datapath.Event{
				Reason: datapath.FromStack, Direction: datapath.ToPod,
				Came: datapath.Tuple{Src: pod, Dst: rec.Shadow4}, Went: datapath.Tuple{Src: vip, Dst: pod},
			},
			"10.10.1.10 > " + rec.Shadow4.String() + " (ns/p1)", "10.96.0.10 > 10.10.1.10 (ns/p1)",
		},
	} {
		c.event.Ifindex, c.event.VNI = 7, 20
		if got := words.tell(c.event); got.Came.String() != c.came || got.Went.String() != c.went {
			t.Errorf("%s: %s, then %s; want %s, then %s", name, got.Came, got.Went, c.came, c.went)
		}
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
	log := newPacketLog(packetWords{}, nil, nil)
	for i := range keptPackets + 10 {
		log.add(nodestatus.Packet{VNI: uint32(i)})
		if i == 4 {
			if drops, next, _ := log.since(0); len(drops) != 5 || next != 5 || drops[0].Missed != 0 {
				t.Errorf("%d drops, next %d, missed %d", len(drops), next, drops[0].Missed)
			}
		}
	}
	drops, next, changed := log.since(5)
	if len(drops) != keptPackets || next != keptPackets+10 || drops[0].Missed != 5 || drops[0].VNI != 10 {
		t.Errorf("%d drops from %d, next %d, missed %d", len(drops), drops[0].VNI, next, drops[0].Missed)
	}
	if drops, _, _ := log.since(next); len(drops) != 0 {
		t.Errorf("%d drops after the last", len(drops))
	}
	log.add(nodestatus.Packet{})
	select {
	case <-changed:
	default:
		t.Error("nobody is told of a drop")
	}
}
