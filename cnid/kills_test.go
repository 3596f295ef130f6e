// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/test/soak"
	"github.com/alioth-net/alioth/test/waits"
)

const (
	// manyKills and fewKills are the numbers of kills of a daemon, each of the two in turn.
	manyKills, fewKills = 50, 12
	// tillKill bounds the time from a daemon's start to its end: from before it has
	// read its journal to when it has long been at work.
	tillKill = 1500 * time.Millisecond
)

// momentsOf returns so many random moments within tillKill, one in each part of the
// same length, so that few kills meet each stage of a daemon's start. Their order is
// random.
func momentsOf(kills int) []time.Duration {
	part := tillKill / time.Duration(kills)
	moments := make([]time.Duration, kills)
	for place, i := range rand.Perm(kills) {
		moments[place] = time.Duration(i)*part + rand.N(part)
	}
	return moments
}

// TestDaemon_KilledAtEachMoment_TrafficUndisturbed: connections and datagrams between
// nodes and on one continue, while pods are added and deleted and their daemons are
// killed. Afterwards all state agrees with the API.
func TestDaemon_KilledAtEachMoment_TrafficUndisturbed(t *testing.T) {
	l := newLab(t)
	for i := range 4 {
		name := fmt.Sprint("churn", i)
		l.addPod(t, &l.nodes[0].script, i%2, name, "blue", "blue1", false, fmt.Sprintf("10.10.1.%d/24", 30+i))
	}
	l.nodes[1].script = l.nodes[0].script
	l.start(t)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var busy errgroup.Group
	l.stream(ctx, t, &busy)
	for i := range 4 {
		busy.Go(func() error { return l.comeAndGo(ctx, t, l.pods[fmt.Sprint("churn", i)]) })
	}
	lost := l.pods["b1"].sendNumbers(ctx, t, &busy, l.pods["b3"])

	kills := soak.Or(t, manyKills, fewKills)
	for i, moment := range momentsOf(kills) {
		m := l.nodes[i%2]
		<-time.After(moment) // the test is about the moment
		m.stop(unix.SIGKILL)
		m.launch(t)
	}
	for _, m := range l.nodes {
		m.awaitConflist(t)
	}
	stop()
	if err := busy.Wait(); err != nil {
		t.Error(err)
	}
	if n := lost(); n > kills {
		t.Errorf("%d datagrams of a flow were lost in %d kills", n, kills)
	} else {
		t.Logf("%d datagrams were lost", n)
	}
	eventually(t, "the nodes hold what the API says", func() error {
		var all []error
		for _, difference := range l.differences(t) {
			all = append(all, errors.New(difference.String()))
		}
		return errors.Join(all...)
	})
}

// stream keeps connections busy between nodes and on one, in two VPCs, until ctx
// ends.
func (l *lab) stream(ctx context.Context, t *testing.T, busy *errgroup.Group) {
	t.Helper()
	for _, ends := range [][2]string{{"b1", "b3"}, {"b1", "b2"}, {"r1", "r3"}} {
		conn, _, err := dialFrom(t, l.pods[ends[0]].NetNS, l.pods[ends[1]].ip(ipfamily.IPv4))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		busy.Go(func() error { return echoes(ctx, conn) })
	}
}

// echoes sends bytes over a connection and expects them back, until ctx ends: once in a
// millisecond, because daemons that start beside it need the processors.
func echoes(ctx context.Context, conn net.Conn) error {
	text, back := make([]byte, 16<<10), make([]byte, 16<<10)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for round := 0; ctx.Err() == nil; round++ {
		<-tick.C
		for i := range text {
			text[i] = byte(round + i)
		}
		if err := conn.SetDeadline(time.Now().Add(waits.Limit(20 * time.Second))); err != nil {
			return err
		}
		if _, err := conn.Write(text); err != nil {
			return fmt.Errorf("connection from %s to %s, round %d: %w", conn.LocalAddr(), conn.RemoteAddr(), round, err)
		}
		if _, err := io.ReadFull(conn, back); err != nil || !slices.Equal(text, back) {
			return fmt.Errorf("connection from %s to %s, round %d: other bytes came back, or none: %w", conn.LocalAddr(), conn.RemoteAddr(), round, err)
		}
	}
	return nil
}

// comeAndGo attaches and detaches a pod until ctx ends, and leaves it attached.
// As a container runtime would, it tries again what fails: as long as daemons are
// killed, for how quickly one has to be at work before it is depends on the
// machine, and then for a minute.
func (l *lab) comeAndGo(ctx context.Context, t *testing.T, pod *labPod) error {
	untilDone := func(command string) error {
		for ended := (time.Time{}); ; {
			err := l.cni(t, command, pod)
			switch {
			case err == nil:
				return nil
			case ctx.Err() != nil && ended.IsZero():
				ended = time.Now()
			case ctx.Err() != nil && time.Since(ended) > waits.Limit(time.Minute):
				return err
			}
			// A sandbox whose network could not be made is removed.
			_ = l.cni(t, "DEL", pod)
		}
	}
	for {
		if err := untilDone("ADD"); err != nil || ctx.Err() != nil {
			return err
		}
		if err := untilDone("DEL"); err != nil {
			return err
		}
	}
}

// sendNumbers sends a numbered datagram each millisecond to another pod until ctx ends. Then the
// returned function returns the number of lost datagrams.
func (p *labPod) sendNumbers(ctx context.Context, t *testing.T, busy *errgroup.Group, to *labPod) (lost func() int) {
	t.Helper()
	const port = 7000
	var receiver net.PacketConn
	testnet.In(t, to.NetNS, func() (err error) {
		receiver, err = (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", fmt.Sprint(":", port))
		return err
	})
	t.Cleanup(func() { receiver.Close() })
	if err := receiver.(*net.UDPConn).SetReadBuffer(4 << 20); err != nil {
		t.Fatal(err)
	}
	var sender net.Conn
	err := p.Do(func(ns.NetNS) (err error) {
		sender, err = net.Dial("udp", netip.AddrPortFrom(to.ip(ipfamily.IPv4), port).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sender.Close() })
	sent := uint64(0)
	busy.Go(func() error {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			if _, err := sender.Write(binary.BigEndian.AppendUint64(nil, sent)); err != nil {
				return fmt.Errorf("datagram %d: %w", sent, err)
			}
			sent++
		}
		return nil
	})
	seen := make(map[uint64]bool)
	received := make(chan error, 1)
	go func() {
		number := make([]byte, 8)
		for {
			if _, _, err := receiver.ReadFrom(number); err != nil {
				received <- err
				return
			}
			seen[binary.BigEndian.Uint64(number)] = true
		}
	}()
	return func() int {
		// Packets on their way arrive before this one.
		if err := receiver.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := <-received; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		return int(sent) - len(seen)
	}
}
