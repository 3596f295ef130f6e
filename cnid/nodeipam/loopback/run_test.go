// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wayin"
	"github.com/alioth-net/alioth/test/freeport"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// TestLoopbackServer_PortGuardedAndFree_Listens is in the namespace of the test's process, as
// a daemon is in its node's.
func TestLoopbackServer_PortGuardedAndFree_Listens(t *testing.T) {
	to := freePlace(t)
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
	wantNone(t, n, to, "before the port is guarded")
	other, err := net.Listen("tcp", to.String())
	bpftest.Must(t, err)
	close(guarded)
	await(t, "the port to be missed", func() bool { return strings.Contains(n.server.Problem(), "address already in use") })
	bpftest.Must(t, other.Close())
	await(t, "the port to be taken", func() bool { return n.server.Problem() == "" })
	bpftest.Must(t, wayin.Connect.Try(t, n.beside, to))
	stop()
	running.Wait()
	wantNone(t, n, to, "after its end")
	if p := n.server.Problem(); p != "" {
		t.Errorf("after its end there is the problem %q", p)
	}
}

// freePlace returns a free port of this machine's loopback.
func freePlace(t *testing.T) netip.AddrPort {
	t.Helper()
	needs.Root(t, "to run processes in cgroups")
	ports, err := freeport.Choose(t.Context(), 1)
	bpftest.Must(t, err)
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), ports[0])
}

// wantNone wants no listener.
func wantNone(t *testing.T, n *node, to netip.AddrPort, when string) {
	t.Helper()
	if err := wayin.Connect.Try(t, n.beside, to); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("%s: %v, want no listener", when, err)
	}
}

func TestLoopbackServer_ContextEndsDuringWait_Ends(t *testing.T) {
	s := New(Config{Guarded: func(context.Context) bool { return false }})
	s.Run(t.Context())
	if s.Problem() != "" {
		t.Error(s.Problem())
	}
}

// await waits for a condition.
func await(t *testing.T, what string, met func() bool) {
	t.Helper()
	waits.True(t, time.Minute, what, met)
}

// join moves the test's process into a cgroup.
func join(t *testing.T, dir string) {
	t.Helper()
	bpftest.Must(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0))
}

// TestLoopbackServer_WrongPodCgroup_NobodyServed has a daemon that is a pod, and a value that
// does not name the cgroup of pods: at its start, and later.
func TestLoopbackServer_WrongPodCgroup_NobodyServed(t *testing.T) {
	to := freePlace(t)
	n := newGroups(t, to.String())
	t.Cleanup(func() { join(t, filepath.Dir(filepath.Dir(n.pods))) })
	n.server.cfg.InPod, n.server.cfg.Every, n.server.cfg.Recheck = true, time.Millisecond, time.Millisecond
	join(t, n.beside)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.server.Run(ctx) })
	defer running.Wait()
	defer stop()
	for _, when := range []string{"at the start", "later"} {
		await(t, when+" the wrong cgroup to be told", func() bool {
			return n.server.Unsafe() != nil && strings.Contains(n.server.Problem(), "nodeIPAM.podCgroup")
		})
		wantNone(t, n, to, when)
		join(t, n.pod)
		await(t, "the port to be served", func() bool { return n.server.Unsafe() == nil && n.server.Problem() == "" })
		bpftest.Must(t, wayin.Connect.Try(t, n.beside, to))
		join(t, n.beside)
	}
}
