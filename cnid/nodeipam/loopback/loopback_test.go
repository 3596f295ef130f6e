// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wayin"
)

func TestMain(m *testing.M) {
	wayin.Play()
	os.Exit(m.Run())
}

func TestLoopbackServer_Address_OnlyLoopbackAccepted(t *testing.T) {
	for text, want := range map[string]string{
		"localhost:10090": "127.0.0.1 ::1", "127.0.0.1:10090": "127.0.0.1", "[::1]:10090": "::1", "127.8.8.8:10090": "127.8.8.8",
		"[::ffff:127.0.0.1]:10090": "127.0.0.1", "": "",
	} {
		places, err := Parse(text)
		var got []string
		for _, ip := range places.Addrs {
			got = append(got, ip.String())
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v, want %s", text, places, err, want)
		}
	}
	for text, want := range map[string]string{
		"localhost": "and a port", "localhost:0": "1 to 65535", "localhost:http": "1 to 65535", ":10090": "loopback address", "0.0.0.0:10090": "loopback address",
		"[::]:10090": "loopback address", "192.0.2.1:10090": "loopback address", "node1:10090": "loopback address",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

// node is a network namespace with a cgroup of pods with a pod in it, and one beside it.
type node struct {
	ns                netns.NsHandle
	pods, pod, beside string
	server            *Server
}

// newNode has a server that does not listen yet, and no guards.
func newNode(t *testing.T, places string) *node {
	t.Helper()
	ns := bpftest.InNamespace(t)
	n := newGroups(t, places)
	n.ns = ns
	return n
}

// newGroups returns the same as newNode, without a namespace of its own.
func newGroups(t *testing.T, places string) *node {
	t.Helper()
	root := bpftest.ChildCgroup(t)
	n := &node{pods: filepath.Join(root, "kubepods"), pod: filepath.Join(root, "kubepods", "pod1"), beside: filepath.Join(root, "containerd")}
	for _, dir := range []string{n.pods, n.pod, n.beside} {
		bpftest.Must(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("remove cgroup: %v", err)
			}
		})
	}
	at, err := Parse(places)
	bpftest.Must(t, err)
	n.server = New(Config{
		Places: at, Pods: n.pods, Guarded: func(context.Context) bool { return true }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		TokenFile: filepath.Join(t.TempDir(), "token"), Recheck: time.Hour,
		Handler: func(string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") })
		},
	})
	return n
}

// serve opens the listeners, and serves until the test ends. A daemon is in the namespace of
// its node as a whole; here the goroutines that look for clients have to be.
func (n *node) serve(t *testing.T) {
	t.Helper()
	listeners, err := n.server.listen(t.Context())
	bpftest.Must(t, err)
	web := &http.Server{Handler: n.server.cfg.Handler(""), ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	for _, l := range listeners {
		serving.Go(func() { bpftest.In(t, n.ns, func() { _ = web.Serve(l) }) })
	}
	t.Cleanup(func() {
		web.Close()
		serving.Wait()
	})
}

// TestLoopbackServer_PodConnects_NotAnswered has no guards, so every way leads to the gate.
func TestLoopbackServer_PodConnects_NotAnswered(t *testing.T) {
	n := newNode(t, "localhost:10090")
	n.serve(t)
	for _, way := range wayin.Sockets() {
		for _, ip := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0"} {
			to := netip.AddrPortFrom(netip.MustParseAddr(ip), 10090)
			err := way.Try(t, n.beside, to)
			if errors.Is(err, wayin.ErrAbsent) {
				break
			}
			if err != nil {
				t.Errorf("%s to %s by a process of the node: %v", way, to, err)
			}
			for _, group := range []string{n.pod, n.pods} {
				if err := way.Try(t, group, to); !errors.Is(err, wayin.ErrUnanswered) {
					t.Errorf("%s to %s by a process in %s: %v, want no answer", way, to, group, err)
				}
			}
		}
	}
}

// No hook of sockets sees packets that a process makes itself, and no socket is behind them.
func TestLoopbackServer_PacketWithoutSocket_NotAnswered(t *testing.T) {
	n := newNode(t, "127.0.0.1:10090")
	n.serve(t)
	open, err := net.Listen("tcp", "127.0.0.1:10091")
	bpftest.Must(t, err)
	defer open.Close()
	go func() { _ = http.Serve(open, n.server.cfg.Handler("")) }()
	if err := wayin.Raw.Try(t, n.pod, netip.MustParseAddrPort("127.0.0.1:10091")); err != nil {
		t.Errorf("a server without a gate: %v", err)
	}
	if err := wayin.Raw.Try(t, n.pod, netip.MustParseAddrPort("127.0.0.1:10090")); !errors.Is(err, wayin.ErrUnanswered) {
		t.Errorf("a server with a gate: %v, want no answer", err)
	}
}

func TestLoopbackServer_NoPodCgroup_NothingServed(t *testing.T) {
	n := newNode(t, "127.0.0.1:10090")
	n.serve(t)
	bpftest.Must(t, os.Remove(n.pod))
	bpftest.Must(t, os.Remove(n.pods))
	if err := wayin.Connect.Try(t, n.beside, netip.MustParseAddrPort("127.0.0.1:10090")); !errors.Is(err, wayin.ErrUnanswered) {
		t.Errorf("a client of a server that lost the cgroup of pods: %v", err)
	}
	n.server.cfg.Places.Port++
	if _, err := n.server.listen(t.Context()); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a server that starts without the cgroup of pods: %v", err)
	}
}

func TestLoopbackServer_NoIPv6_LocalhostByIPv4(t *testing.T) {
	n := newNode(t, "localhost:10090")
	bpftest.Enable(t, "net/ipv6/conf/all/disable_ipv6")
	n.serve(t)
	bpftest.Must(t, wayin.Connect.Try(t, n.beside, netip.MustParseAddrPort("127.0.0.1:10090")))
	n.server.cfg.Places, _ = Parse("[::1]:10090")
	if _, err := n.server.listen(t.Context()); !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("a place that was asked for: %v", err)
	}
}
