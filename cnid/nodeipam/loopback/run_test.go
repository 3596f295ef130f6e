// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wayin"
	"github.com/alioth-net/alioth/test/freeport"
)

// TestAServerListensOnceItsPortIsGuardedAndFree is in the namespace of the test's process, as
// a daemon is in its node's.
func TestAServerListensOnceItsPortIsGuardedAndFree(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("missing feature: processes in cgroups need root")
	}
	ports, err := freeport.Choose(t.Context(), 1)
	bpftest.Must(t, err)
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), ports[0])
	n := newGroups(t, to.String())
	guarded, asked := make(chan struct{}), make(chan struct{})
	n.server.cfg.Every = time.Millisecond
	n.server.cfg.Guarded = func(context.Context) bool {
		close(asked)
		<-guarded
		return true
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.server.Run(ctx) })
	defer running.Wait()
	defer stop()
	<-asked
	if err := wayin.Connect.Try(t, n.beside, to); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("before the port is guarded: %v, want no listener", err)
	}
	other, err := net.Listen("tcp", to.String())
	bpftest.Must(t, err)
	close(guarded)
	await(t, "the port to be missed", func() bool { return strings.Contains(n.server.Problem(), "address already in use") })
	bpftest.Must(t, other.Close())
	await(t, "the port to be taken", func() bool { return n.server.Problem() == "" })
	bpftest.Must(t, wayin.Connect.Try(t, n.beside, to))
	stop()
	running.Wait()
	if err := wayin.Connect.Try(t, n.beside, to); !errors.Is(err, unix.ECONNREFUSED) || n.server.Problem() != "" {
		t.Errorf("after its end: %v, problem %q", err, n.server.Problem())
	}
}

func TestAServerEndsWithItsContextWhileItWaits(t *testing.T) {
	s := New(Config{Guarded: func(context.Context) bool { return false }})
	s.Run(t.Context())
	if s.Problem() != "" {
		t.Error(s.Problem())
	}
}

// await waits for a condition.
func await(t *testing.T, what string, met func() bool) {
	t.Helper()
	limit, again := time.After(bpftest.Patience), time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !met() {
		select {
		case <-limit:
			t.Fatal(fmt.Sprint("waited for ", what))
		case <-again.C:
		}
	}
}
