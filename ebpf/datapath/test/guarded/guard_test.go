// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guarded_test connects to a guarded port as processes of pods and of the node do.
package guarded_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wayin"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

func TestMain(m *testing.M) {
	wayin.Play()
	os.Exit(m.Run())
}

const port = 10090

// node is a node with a cgroup of pods, one pod in it, and a process beside it.
type node struct {
	*world.World
	pods, pod, beside string
}

// newNode guards the port, and serves it at the node's loopback addresses.
func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{}
	n.World = world.New(t, func(cfg *programs.Config) {
		root := cfg.CgroupRoot
		n.pods, n.pod, n.beside = filepath.Join(root, "kubepods"), filepath.Join(root, "kubepods", "pod1"), filepath.Join(root, "containerd")
		makeCgroups(t, n.pods, n.pod, n.beside)
		cfg.PodCgroup, cfg.GuardedPort = n.pods, port
	})
	serve(t, "127.0.0.1:10090", "[::1]:10090", "127.0.0.1:10091")
	return n
}

func makeCgroups(t *testing.T, list ...string) {
	t.Helper()
	for _, dir := range list {
		bpftest.Must(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("remove cgroup: %v", err)
			}
		})
	}
}

// serve answers all clients, in the caller's network namespace.
func serve(t *testing.T, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		bpftest.Must(t, err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 1))
				_, _ = conn.Write([]byte("answer"))
				conn.Close()
			}
		}()
	}
}

// loopbacks are the ways to name the listeners.
var loopbacks = []netip.Addr{
	wire.IP("127.0.0.1"), wire.IP("0.0.0.0"), wire.IP("::1"), wire.IP("::"), wire.IP("::ffff:127.0.0.1"), wire.IP("::ffff:0.0.0.0"),
}

func TestGuardedPort_PodProcess_Unreachable(t *testing.T) {
	n := newNode(t)
	refused := uint64(0)
	for _, way := range wayin.Sockets() {
		for _, ip := range loopbacks {
			to := netip.AddrPortFrom(ip, port)
			err := way.Try(t, n.beside, to)
			if errors.Is(err, wayin.ErrAbsent) {
				t.Logf("%s: %v", way, err)
				break
			}
			if err != nil {
				t.Errorf("%s to %s by a process of the node: %v", way, to, err)
			}
			if err := way.Try(t, n.pod, to); !errors.Is(err, unix.EPERM) {
				t.Errorf("%s to %s by a process of a pod: %v, want EPERM", way, to, err)
			}
			refused++
		}
	}
	if got := bpftest.Counts(t, n.Datapath)["socket/guarded_port"]; got != refused {
		t.Errorf("%d refusals were counted, want %d", got, refused)
	}
}

func TestGuard_Addresses_OnlyLoopbackClosed(t *testing.T) {
	n := newNode(t)
	bpftest.AddAddr(t, 1, bpftest.Host(wire.IP("192.0.2.9")))
	serve(t, "192.0.2.9:10090")
	for to, want := range map[string]error{
		"127.255.255.254:10090": unix.EPERM, "[::ffff:127.8.8.8]:10090": unix.EPERM,
		"127.0.0.1:10091": nil, "192.0.2.9:10090": nil, "[::ffff:192.0.2.9]:10090": nil, "[::2]:10090": unix.ENETUNREACH,
	} {
		if err := wayin.Connect.Try(t, n.pod, netip.MustParseAddrPort(to)); !errors.Is(err, want) {
			t.Errorf("to %s: %v, want %v", to, err, want)
		}
	}
}

func TestGuard_PodOwnLoopback_Open(t *testing.T) {
	n := newNode(t)
	bpftest.In(t, bpftest.NewNamespace(t), func() {
		serve(t, "127.0.0.1:10090", "[::1]:10090")
		for _, ip := range loopbacks {
			bpftest.Must(t, wayin.Connect.Try(t, n.pod, netip.AddrPortFrom(ip, port)))
		}
	})
}

// A socket belongs to the cgroup of its creation, for good.
func TestGuard_SocketOlderThanGuard_Refused(t *testing.T) {
	n := newNode(t)
	bpftest.Must(t, n.Close())
	bpftest.Must(t, datapath.Uninstall(n.Config.PinDir, n.Config.CgroupRoot))
	bpftest.Must(t, wayin.Connect.Try(t, n.pod, netip.AddrPortFrom(loopbacks[0], port)))
	early := wayin.Connect.Prepare(t, n.pod, netip.AddrPortFrom(loopbacks[0], port))
	bpftest.Open(t, n.Config)
	if err := early(); !errors.Is(err, unix.EPERM) {
		t.Errorf("got %v, want EPERM", err)
	}
}

// wantClosed wants the port to be closed to pods, in both families.
func wantClosed(t *testing.T, n *node, when string) {
	t.Helper()
	for _, ip := range []netip.Addr{loopbacks[0], loopbacks[2]} {
		if err := wayin.Connect.Try(t, n.pod, netip.AddrPortFrom(ip, port)); !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %s: %v, want EPERM", when, ip, err)
		}
	}
}
