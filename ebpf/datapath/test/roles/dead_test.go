// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/cached"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/test/bench/figures"
)

// couple are two pods of two nodes that have not spoken.
type couple struct{ from, to *lab.Pod }

// couples returns count couples of pods, beside the pods of the scene.
func (s *scene) couples(count int) (list []couple) {
	for i := range count {
		list = append(list, couple{s.Pod(client, 100+i), s.Pod(server, 200+i)})
	}
	s.dropRemote(client)
	s.dropRemote(server)
	s.ApplyEach()
	return list
}

// looksUp has the nodes of pods give themselves a row for each address that a packet has
// missed, as daemons do that ask the API server.
func (s *scene) looksUp(t *testing.T, list []couple) {
	t.Helper()
	rows := map[netip.Addr]state.Cached{}
	for _, c := range list {
		for family := range 2 {
			rows[c.from.Addrs[family]] = state.Cached{VNI: lab.VNI1, IP: c.from.Addrs[family], Node: s.node(client), MAC: state.VirtualMAC}
			rows[c.to.Addrs[family]] = state.Cached{VNI: lab.VNI1, IP: c.to.Addrs[family], Node: s.node(server), MAC: state.VirtualMAC}
		}
	}
	for _, i := range []int{client, server} {
		misses, err := s.Nodes[i].Datapath.Misses()
		bpftest.Must(t, err)
		done := make(chan error, 1)
		go func() { done <- answer(misses, s.Nodes[i].Datapath.Cached(), rows) }()
		t.Cleanup(func() {
			if err := errors.Join(misses.Close(), <-done); err != nil {
				t.Errorf("look up on node %d: %v", i, err)
			}
		})
	}
}

// answer puts the rows of missed addresses into a table until misses are closed.
func answer(misses *cached.Misses, table *cached.Table, rows map[netip.Addr]state.Cached) error {
	for {
		miss, err := misses.Read()
		if errors.Is(err, cached.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if row, ok := rows[miss.IP]; ok {
			if err := table.Put(row); err != nil {
				return err
			}
		}
	}
}

// firstAnswer sends a datagram each millisecond until one is answered, and returns the time until
// the answer.
func firstAnswer(t *testing.T, c couple, family int) time.Duration {
	t.Helper()
	there, here := bpftest.UdpPair(t, c.to.NS, c.from.NS, netip.AddrPortFrom(c.to.Addrs[family], 9000))
	go echo(there)
	answered := make(chan error, 1)
	go func() {
		_, err := here.Read(make([]byte, 16))
		answered <- err
	}()
	began := time.Now()
	bpftest.Eventually(t, "a datagram is answered", func() bool {
		_, err := here.Write([]byte("hello"))
		bpftest.Must(t, err)
		select {
		case err := <-answered:
			bpftest.Must(t, err)
			return true
		default:
			return false
		}
	})
	return time.Since(began)
}

// echo returns all datagrams until the socket is closed.
func echo(conn *net.UDPConn) {
	buf := make([]byte, 16)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if _, err := conn.WriteToUDPAddrPort(buf[:n], from); err != nil {
			return
		}
	}
}

// whileABouncerIsDead cuts one of two bouncers off while a flow goes directly, has couples speak
// for the first time, and returns the time of each until its first answer. The direct flow, which
// sends nothing again, must lose nothing.
func whileABouncerIsDead(t *testing.T, count int) (took []time.Duration) {
	t.Helper()
	s := newScene(t, 0, false)
	list := s.couples(count)
	s.cache(t, client, s.b.Addrs[0], server)
	s.cache(t, server, s.a.Addrs[0], client)
	at, from := bpftest.UdpPair(t, s.b.NS, s.a.NS, netip.AddrPortFrom(s.b.Addrs[0], 9000))
	stop, direct := make(chan struct{}), make(chan error, 1)
	go func() { direct <- bpftest.PingPong(from, at, stop) }()
	s.looksUp(t, list)
	setDown(t, bouncer1)
	for _, c := range list {
		for family := range 2 {
			took = append(took, firstAnswer(t, c, family))
		}
	}
	close(stop)
	if err := <-direct; err != nil {
		t.Errorf("the flow that goes directly: %v", err)
	}
	return took
}

// A bouncer dies, and no node knows it yet: packets that go directly are not lost, and new flows
// get through with a retry at most per lookup.
func TestBouncer_Dead_NoFlowHeldUp(t *testing.T) {
	t.Logf("first answers after %v", whileABouncerIsDead(t, 4))
}

// TestBouncer_DeadInBenchmark_DurationMeasured measures, for `make bench` alone.
func TestBouncer_DeadInBenchmark_DurationMeasured(t *testing.T) {
	figures.Wanted(t)
	line := figures.Line{What: "first answer beside a dead bouncer", Path: figures.Alioth}
	for _, took := range whileABouncerIsDead(t, 30) {
		line.Values = append(line.Values, took.Seconds()*1000)
	}
	if err := line.Print(os.Stdout); err != nil {
		t.Fatal(err)
	}
}
