// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// TestUndo_EarlierReleaseRecord_Undone: it has the documents, and nothing of the kernel.
func TestUndo_EarlierReleaseRecord_Undone(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	if _, err := w.with(t, renumbered, transaction.Options{NoCommit: true}, nil); err != nil {
		t.Fatal(err)
	}
	record := w.record(t)
	if err := unix.Kill(record.Guard, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.ended(t, record.Guard)
	record.Image, record.ResolverFile = nil, nil
	w.put(t, record)
	if err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Recover(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	w.same(t, before)
}

// TestUndo_WallClockJumps_LifetimeUnaffected: somebody may set that clock meanwhile.
func TestUndo_WallClockJumps_LifetimeUnaffected(t *testing.T) {
	w := newWorld(t)
	testnet.In(t, w.node, func() error {
		return exec.CommandContext(t.Context(), "ip", "addr", "add", "192.0.2.77/24", "dev", "eth0", "valid_lft", "3000", "preferred_lft", "3000").Run()
	})
	if _, err := w.with(t, renumbered, transaction.Options{NoCommit: true}, nil); err != nil {
		t.Fatal(err)
	}
	record := w.record(t)
	record.Begun = record.Begun.Add(-time.Hour)
	w.put(t, record)
	if err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Rollback(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	testnet.In(t, w.node, func() error {
		out, err := exec.CommandContext(t.Context(), "ip", "-4", "addr", "show", "dev", "eth0").Output()
		if !strings.Contains(string(out), "192.0.2.77/24") {
			t.Errorf("the address is gone: %s", out)
		}
		return err
	})
}

// TestUndo_InterfaceGoneMeanwhile_RestRestored removes an interface while a change
// of it waits for its commit.
func TestUndo_InterfaceGoneMeanwhile_RestRestored(t *testing.T) {
	for _, end := range []string{"rollback", "deadline"} {
		t.Run(end, func(t *testing.T) {
			w := newWorld(t)
			w.apply(t, sourced)
			before := w.show(t)
			const change = "interfaces: [{name: v1, mtu: 1400}, {name: eth0, mtu: 1400}]"
			if end == "deadline" {
				cmd := w.start(t, job{Dir: w.dir, Desired: change, DieBefore: never, HangBefore: never, OrphanBefore: never, Timeout: 2 * time.Second, NoCommit: true})
				if err := cmd.Wait(); err != nil {
					t.Fatal(err)
				}
			} else if _, err := w.with(t, change, transaction.Options{NoCommit: true}, nil); err != nil {
				t.Fatal(err)
			}
			testnet.In(t, w.node, func() error {
				v1, err := netlink.LinkByName("v1")
				if err != nil {
					return err
				}
				return netlink.LinkDel(v1)
			})
			if end == "rollback" {
				err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Rollback(t.Context()) })
				if !errors.Is(err, transaction.ErrIncomplete) || !strings.Contains(err.Error(), "v1: the interface has gone meanwhile") {
					t.Errorf("got %v", err)
				}
			}
			w.closed(t)
			isPair := func(i document.Interface) bool { return i.Name == "v1" || i.Name == "v2" }
			before.Interfaces = slices.DeleteFunc(before.Interfaces, isPair)
			w.same(t, before, cmpopts.IgnoreFields(document.State{}, "Routes"))
			if lost := w.unrestored(t); lost == nil || lost.GivenUp || !strings.Contains(lost.Message, "v1: the interface has gone meanwhile") {
				t.Errorf("the folder tells %+v", lost)
			}
			w.apply(t, "interfaces: [{name: eth0, mtu: 1450}]")
			if lost := w.unrestored(t); lost != nil {
				t.Errorf("after another change the folder tells %+v", lost)
			}
		})
	}
}

func (w world) unrestored(t *testing.T) (lost *transaction.Unrestored) {
	t.Helper()
	err := w.manager(t, nil, func(m *transaction.Manager) (err error) {
		lost, err = m.Unrestored()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lost
}

// TestTransaction_UnrestorableDeletion_RefusedBeforeChange: the document is refused before anything is changed.
func TestTransaction_UnrestorableDeletion_RefusedBeforeChange(t *testing.T) {
	w := newWorld(t)
	w.apply(t, "interfaces: [{name: br7, type: linux-bridge, state: up}]")
	testnet.In(t, w.node, func() error {
		return runAll(t, "tc qdisc add dev br7 clsact", "tc filter add dev br7 ingress prio 5 u32 match u32 0 0 flowid 1:1")
	})
	before := w.show(t)
	_, err := w.with(t, "interfaces: [{name: br7, state: absent}]", transaction.Options{}, nil)
	if !errors.Is(err, transaction.ErrFinal) || !strings.Contains(err.Error(), "br7: the filter u32") {
		t.Fatalf("got %v", err)
	}
	w.same(t, before)
	w.closed(t)
}

// TestTransaction_DeleteBaseOfPodInterface_Refused: the kernel would delete what a pod has on the interface.
func TestTransaction_DeleteBaseOfPodInterface_Refused(t *testing.T) {
	w := newWorld(t)
	w.apply(t, "interfaces: [{name: br7, type: linux-bridge, state: up}, {name: br8, type: linux-bridge, state: up}]")
	pod := testnet.New(t)
	testnet.In(t, w.node, func() error {
		return runAll(t, "ip link add link br7 name mv0 type macvlan mode bridge", "ip link set mv0 netns "+pod.Path())
	})
	_, err := w.with(t, "interfaces: [{name: br7, state: absent}]", transaction.Options{}, nil)
	if !errors.Is(err, transaction.ErrFinal) || !strings.Contains(err.Error(), "br7: the interface mv0 on it, in another network namespace") {
		t.Fatalf("got %v", err)
	}
	w.closed(t)
	w.apply(t, "interfaces: [{name: br8, state: absent}]")
	testnet.In(t, pod, func() error { return runAll(t, "ip link show mv0") })
}

// TestTransaction_ReplaceBridgeZeroAddress_Refused: nobody can set it again.
func TestTransaction_ReplaceBridgeZeroAddress_Refused(t *testing.T) {
	w := newWorld(t)
	testnet.In(t, w.node, func() error {
		return runAll(t, "ip link add br7 type bridge", "ip link add d0 type veth", "ip link set d0 master br7", "ip link del d0")
	})
	_, err := w.with(t, "interfaces: [{name: br7, mac-address: '02:00:00:00:00:07'}]", transaction.Options{}, nil)
	if !errors.Is(err, transaction.ErrFinal) || !strings.Contains(err.Error(), "br7: the address zero") {
		t.Fatalf("got %v", err)
	}
	w.closed(t)
}

// TestUndo_ForeignAddresses_Kept: while the change waits for its commit, a program adds one
// address, and takes another one to another node.
func TestUndo_ForeignAddresses_Kept(t *testing.T) {
	for name, change := range map[string]string{"attributes": "interfaces: [{name: eth0, mtu: 1400}]", "addresses": renumbered} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := w.show(t)
			testnet.In(t, w.node, func() error { return runAll(t, "ip addr add 192.0.2.66/32 dev eth0") })
			if _, err := w.with(t, change, transaction.Options{NoCommit: true}, nil); err != nil {
				t.Fatal(err)
			}
			testnet.In(t, w.node, func() error {
				if name == "attributes" { // The other change has removed it.
					if err := runAll(t, "ip addr del 192.0.2.66/32 dev eth0"); err != nil {
						return err
					}
				}
				return runAll(t, "ip addr add 192.0.2.77/32 dev eth0")
			})
			if err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Rollback(t.Context()) }); err != nil {
				t.Fatal(err)
			}
			add := []string{"192.0.2.77"}
			if name == "addresses" {
				add = []string{"192.0.2.66", "192.0.2.77"}
			}
			eth0 := slices.IndexFunc(before.Interfaces, func(i document.Interface) bool { return i.Name == "eth0" })
			for _, ip := range add {
				list := &before.Interfaces[eth0].IPv4.Addresses
				*list = append(*list, document.Address{IP: ip, PrefixLength: 32})
			}
			w.same(t, before, cmpopts.SortSlices(func(a, b document.Address) bool { return a.IP < b.IP }))
		})
	}
}

// TestUndo_VirtualInterfaceInactive_KeptDown has a bridge that somebody made and left
// down, and that a policy had changed.
func TestUndo_VirtualInterfaceInactive_KeptDown(t *testing.T) {
	w := newWorld(t)
	testnet.In(t, w.node, func() error {
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "byhand", MTU: 1400}})
	})
	const inactive = "interfaces: [{name: byhand, mtu: 1500, state: inactive}, {name: gone, mtu: 1500, state: inactive}]"
	for _, text := range []string{"interfaces: [{name: byhand, mtu: 1400}]", inactive, inactive} {
		w.apply(t, text)
	}
	for _, i := range w.show(t).Interfaces {
		if i.Name == "gone" || i.Name == "byhand" && (i.State != document.Down || *i.MTU != 1500) {
			t.Errorf("%s is %s with an MTU of %d", i.Name, i.State, *i.MTU)
		}
	}
	if !slices.ContainsFunc(w.show(t).Interfaces, func(i document.Interface) bool { return i.Name == "byhand" }) {
		t.Error("the bridge is gone")
	}
	w.apply(t, "interfaces: [{name: another, type: linux-bridge, mtu: 1400, state: inactive}]")
	if at := slices.IndexFunc(w.show(t).Interfaces, func(i document.Interface) bool { return i.Name == "another" && i.State == document.Down }); at < 0 {
		t.Error("a bridge with its type is not made")
	}
}

// runAll runs commands in the namespace of the calling thread.
func runAll(t *testing.T, commands ...string) error {
	t.Helper()
	for _, command := range commands {
		words := strings.Fields(command)
		if out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	return nil
}

// TestUndo_DaemonWithdrawsRoute_StaysAway has routes of a daemon through an interface that
// keeps them, and through one that loses them. The daemon withdraws one of each while the change
// waits for its commit, and an administrator adds a route.
func TestUndo_DaemonWithdrawsRoute_StaysAway(t *testing.T) {
	w := newWorld(t)
	w.apply(t, sourced)
	testnet.In(t, w.node, func() error {
		return runAll(
			t, "ip route add 198.18.1.0/24 via 192.0.2.1 dev eth0 proto bird", "ip route add 198.18.2.0/24 via 192.0.2.1 dev eth0 proto bird",
			"ip route add 198.18.3.0/24 via 192.0.2.1 dev eth0 proto bird src 10.1.0.1",
		)
	})
	const change = `
interfaces:
- {name: eth0, mtu: 1400}
- {name: v1, ipv4: {enabled: true, address: [{ip: 10.1.0.9, prefix-length: 32}]}}
routes: {config: [{destination: 198.18.4.0/24, next-hop-address: 192.0.2.1, next-hop-interface: eth0}]}`
	if _, err := w.with(t, change, transaction.Options{NoCommit: true}, nil); err != nil {
		t.Fatal(err)
	}
	testnet.In(t, w.node, func() error {
		return runAll(t, "ip route del 198.18.2.0/24", "ip route add 198.18.5.0/24 via 192.0.2.1 dev eth0 proto static")
	})
	if err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Rollback(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	testnet.In(t, w.node, func() error {
		out, err := exec.CommandContext(t.Context(), "ip", "route", "show").Output()
		for n, want := range map[int]bool{1: true, 2: false, 3: true, 4: false, 5: true} {
			if to := fmt.Sprintf("198.18.%d.0/24 ", n); strings.Contains(string(out), to) != want {
				t.Errorf("the route to %s is there: %t", to, !want)
			}
		}
		return err
	})
}

// TestUndo_FileUnwritable_Ends: the file of the resolver can't be replaced, because
// something has the name of the new one.
func TestUndo_FileUnwritable_Ends(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	if _, err := w.with(t, renumbered, transaction.Options{NoCommit: true}, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(w.dir, "resolv.conf.alioth", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Rollback(t.Context()) })
	if !errors.Is(err, transaction.ErrIncomplete) || !strings.Contains(err.Error(), "restore the resolver's configuration") {
		t.Errorf("got %v", err)
	}
	w.closed(t)
	w.same(t, before, cmpopts.IgnoreFields(document.State{}, "DNS"))
}

// TestUndo_OthersAddObjects_Ends: the kernel drops all routes with the last address of IPv4. One
// of others leads to a gateway that only the change had made reachable.
func TestUndo_OthersAddObjects_Ends(t *testing.T) {
	w := newWorld(t)
	testnet.In(t, w.node, func() error {
		return runAll(t, "ip link add byhand type bridge", "ip link set byhand up", "ip addr add 10.1.0.1/24 dev byhand")
	})
	before := w.show(t)
	const change = "interfaces: [{name: byhand, ipv4: {enabled: true, address: [{ip: 10.9.0.1, prefix-length: 24}]}}]"
	if _, err := w.with(t, change, transaction.Options{NoCommit: true}, nil); err != nil {
		t.Fatal(err)
	}
	testnet.In(t, w.node, func() error {
		return runAll(t, "ip route add 198.18.7.0/24 via 10.9.0.254 dev byhand proto bird", "ip route add 198.18.8.0/24 dev byhand proto bird")
	})
	err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Rollback(t.Context()) })
	if !errors.Is(err, transaction.ErrIncomplete) || !strings.Contains(err.Error(), "add the route 198.18.7.0/24 of table 254, which others had added") {
		t.Errorf("got %v", err)
	}
	w.closed(t)
	testnet.In(t, w.node, func() error {
		out, err := exec.CommandContext(t.Context(), "ip", "route", "show", "proto", "bird").Output()
		if string(out) != "198.18.8.0/24 dev byhand scope link \n" {
			t.Errorf("routes of others: %q", out)
		}
		return errors.Join(err, runAll(t, "ip route del 198.18.8.0/24"))
	})
	w.same(t, before)
}

// ending is a Host whose process ends before one of the requests of an undo.
type ending struct {
	transaction.Host
	left int
}

func (e *ending) Replay(ctx context.Context, r snapshot.Request) error {
	if e.left--; e.left == 0 {
		panic(errEnd)
	}
	return e.Host.Replay(ctx, r)
}

// TestUndo_EndedAfterForeignAdditions_AdditionsKept has an undo that sets a bridge down, so that the kernel
// drops addresses of IPv6. Its process ends before any of its requests, and the next one goes on.
func TestUndo_EndedAfterForeignAdditions_AdditionsKept(t *testing.T) {
	w := newWorld(t)
	testnet.In(t, w.node, func() error {
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "byhand"}})
	})
	before := w.show(t)
	for at, ended := 1, true; ended; at++ {
		if _, err := w.with(t, "interfaces: [{name: byhand, state: up}]", transaction.Options{NoCommit: true}, nil); err != nil {
			t.Fatal(err)
		}
		testnet.In(t, w.node, func() error { return runAll(t, "ip addr add fd77::7/64 dev byhand nodad") })
		err := w.manager(t, func(cfg *transaction.Config) { cfg.Host = &ending{cfg.Host, at} }, func(m *transaction.Manager) (err error) {
			defer func() {
				if ended = recover() != nil; ended {
					err = errEnd
				}
			}()
			return m.Rollback(t.Context())
		})
		if ended {
			err = w.manager(t, nil, func(m *transaction.Manager) error { return m.Rollback(t.Context()) })
		}
		if err != nil {
			t.Fatal(err)
		}
		w.closed(t)
		testnet.In(t, w.node, func() error {
			out, err := exec.CommandContext(t.Context(), "ip", "addr", "show", "dev", "byhand").Output()
			if !strings.Contains(string(out), "fd77::7/64") {
				t.Errorf("ended before request %d: the address of others is gone: %s", at, out)
			}
			return errors.Join(err, runAll(t, "ip addr del fd77::7/64 dev byhand"))
		})
		w.same(t, before)
		const fewest = 2 // the bridge goes down, and the address comes back
		if !ended && at <= fewest {
			t.Errorf("the undo has %d requests", at-1)
		}
	}
}
