// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// InNamespace moves the test into a network namespace of its own, which lives as
// long as the test.
func InNamespace(t testing.TB) netns.NsHandle {
	t.Helper()
	needs.Root(t, "to make network namespaces and load BPF programs")
	// Never unlocked: the thread ends with the test.
	runtime.LockOSThread()
	ns, err := netns.New()
	if err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	t.Cleanup(func() { ns.Close() })
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	return ns
}

// Enter moves a subtest, which has a goroutine of its own, into a namespace.
func Enter(t testing.TB, ns netns.NsHandle) {
	t.Helper()
	runtime.LockOSThread()
	if err := netns.Set(ns); err != nil {
		t.Fatalf("enter network namespace: %v", err)
	}
}

// Must ends a test that has failed with an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NewNamespace makes a namespace and returns to the one the thread is in.
func NewNamespace(t testing.TB) netns.NsHandle {
	t.Helper()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	if err := netns.Set(home); err != nil {
		t.Fatal(err)
	}
	return ns
}

// In runs f with the thread inside ns.
func In(t testing.TB, ns netns.NsHandle, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	if err := netns.Set(ns); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := netns.Set(home); err != nil {
			panic(fmt.Sprintf("return to the test's namespace: %v", err))
		}
	}()
	f()
}

// Enable sets a kernel setting to 1.
func Enable(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("/proc/sys", path), []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
}

// AddAddr adds an address that is usable at once.
func AddAddr(t testing.TB, ifindex int, prefix netip.Prefix) {
	t.Helper()
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		t.Fatal(err)
	}
	a := &netlink.Addr{IPNet: IPNet(prefix)}
	if prefix.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	if err := netlink.AddrAdd(l, a); err != nil {
		t.Fatalf("add address %s: %v", prefix, err)
	}
	if l.Attrs().Flags&net.FlagUp != 0 {
		awaitLocal(t, prefix.Addr())
	}
}

// awaitLocal waits until the kernel takes an address for its own, which for IPv6
// it does some time after the address was added.
func awaitLocal(t testing.TB, addr netip.Addr) {
	t.Helper()
	waits.Until(t, 20*time.Second, addr.String()+" is the kernel's own", func() error {
		routes, err := netlink.RouteGet(addr.AsSlice())
		if err == nil && (len(routes) == 0 || routes[0].Type != unix.RTN_LOCAL) {
			err = fmt.Errorf("routes: %v", routes)
		}
		return err
	})
}

// IPNet converts a prefix for package netlink.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Host returns the prefix of one address.
func Host(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }

// AddRoute adds a route in the current namespace.
func AddRoute(t testing.TB, r *netlink.Route) {
	t.Helper()
	if err := netlink.RouteAdd(r); err != nil {
		t.Fatalf("add route %s: %v", r, err)
	}
}

// AddNeighbour adds a permanent neighbour in the current namespace.
func AddNeighbour(t testing.TB, ifindex int, ip netip.Addr, mac state.MAC) {
	t.Helper()
	err := netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: ifindex, IP: ip.AsSlice(), HardwareAddr: mac[:], State: netlink.NUD_PERMANENT,
	})
	if err != nil {
		t.Fatalf("add neighbour %s: %v", ip, err)
	}
}
