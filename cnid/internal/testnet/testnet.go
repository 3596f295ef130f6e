// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testnet builds throwaway network namespaces for tests that run
// against the real kernel. Everything made here goes away with the test.
package testnet

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/containernetworking/plugins/pkg/testutils"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// New returns a new network namespace with lo up. The test is skipped where it
// does not run as root.
func New(t testing.TB) ns.NetNS {
	t.Helper()
	needs.Root(t, "to make network namespaces")
	space, err := testutils.NewNS()
	if err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	t.Cleanup(func() {
		if err := space.Close(); err != nil {
			t.Errorf("close network namespace: %v", err)
		}
		remove(t, space)
	})
	In(t, space, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	return space
}

// remove removes a namespace as soon as it is unused: a lab beside the test has its name
// too, and so does a child that has not become its program yet.
func remove(t testing.TB, space ns.NetNS) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waits.Limit(10 * time.Second))
	for {
		err := testutils.UnmountNS(space)
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Errorf("remove network namespace: %v", err)
			return
		case <-tick.C:
		}
	}
}

// In runs a function with the calling thread in a namespace, and ends the test
// if it fails.
func In(t testing.TB, space ns.NetNS, do func() error) {
	t.Helper()
	if err := space.Do(func(ns.NetNS) error { return do() }); err != nil {
		t.Fatal(err)
	}
}

// Veth joins two namespaces by a veth pair, both ends up, with the addresses
// given. IPv6 addresses are usable at once.
func Veth(t testing.TB, a ns.NetNS, nameA string, addrsA []string, b ns.NetNS, nameB string, addrsB []string) {
	t.Helper()
	In(t, a, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = nameA
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: nameB, PeerNamespace: netlink.NsFd(int(b.Fd()))})
	})
	for _, end := range []struct {
		space ns.NetNS
		name  string
		addrs []string
	}{{a, nameA, addrsA}, {b, nameB, addrsB}} {
		In(t, end.space, func() error { return configure(end.name, end.addrs) })
	}
}

func configure(name string, addrs []string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, text := range addrs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if prefix.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(link)
}

// NFT runs an nft script in the calling thread's network namespace, as another
// program would.
func NFT(script string) error {
	cmd := exec.CommandContext(context.Background(), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}
