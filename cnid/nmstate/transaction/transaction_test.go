// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
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
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/probe"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

func TestTransaction_State_AppliedOnceAndCommitted(t *testing.T) {
	w := newWorld(t)
	first := w.apply(t, renumbered)
	if len(first.Steps) == 0 {
		t.Error("no steps")
	}
	after := w.show(t)
	if second := w.apply(t, renumbered); len(second.Steps) != 0 {
		t.Errorf("applied again it takes %v", second.Steps)
	}
	w.same(t, after)
	if left := w.openFiles(t); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	err := w.manager(t, nil, func(m *transaction.Manager) error {
		committed, err := m.Committed()
		if err != nil {
			return err
		}
		result, err := m.Apply(t.Context(), committed, transaction.Options{Timeout: time.Hour})
		if err == nil && len(result.Steps) != 0 {
			t.Errorf("the committed state takes %v", result.Steps)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCommittedState_Reboot_HostRebuilt(t *testing.T) {
	w := newWorld(t)
	w.apply(t, renumbered)
	want := w.show(t)
	committed, err := os.ReadFile(filepath.Join(w.dir, "committed.json"))
	if err != nil {
		t.Fatal(err)
	}
	// A boot drops devices and settings, and keeps the hardware and the files.
	w.apply(t, goBack)
	w.apply(t, "routes: {config: [{state: absent, next-hop-interface: eth0}]}\nroute-rules: {config: [{state: absent, route-table: 100}]}")
	w.apply(t, string(committed))
	w.same(t, want, cmpopts.IgnoreFields(document.Interface{}, "MACAddress")) // the kernel chooses new ones
}

func TestTransaction_StepFails_Undone(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	broken := func(cfg *transaction.Config) { cfg.Host = &failing{Host: cfg.Host, at: "add the rule"} }
	_, err := w.with(t, renumbered, transaction.Options{}, broken)
	if !errors.Is(err, transaction.ErrRolledBack) || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("got %v", err)
	}
	w.same(t, before)
	if left := w.openFiles(t); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// failing is a Host that refuses a step.
type failing struct {
	transaction.Host
	at string
}

func (f *failing) Do(ctx context.Context, step plan.Step) error {
	if strings.HasPrefix(step.String(), f.at) && !strings.Contains(step.String(), "192.0.2.7") {
		return errors.New("out of order")
	}
	return f.Host.Do(ctx, step)
}

func TestTransaction_ConnectionLost_Undone(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	watched := func(cfg *transaction.Config) {
		cfg.Safeguards = asks(cfg, asking(probe.Probe{Name: "the gateway", Check: func(context.Context) error {
			// The node has moved to another network if it lost this address.
			if !slices.ContainsFunc(w.show(t).Interfaces, hasAddress("192.0.2.7")) {
				return errors.New("no answer")
			}
			return nil
		}}))
		cfg.ProbeLimit = 100 * time.Millisecond
	}
	_, err := w.with(t, renumbered, transaction.Options{}, watched)
	if !errors.Is(err, transaction.ErrRolledBack) || !strings.Contains(err.Error(), "the gateway does not answer since ") {
		t.Errorf("got %v", err)
	}
	w.same(t, before)
}

func hasAddress(ip string) func(document.Interface) bool {
	return func(i document.Interface) bool {
		return i.IPv4 != nil && slices.ContainsFunc(i.IPv4.Addresses, func(a document.Address) bool { return a.IP == ip })
	}
}

func TestTransaction_Uncommitted_Waits(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	wait := transaction.Options{NoCommit: true}
	result, err := w.with(t, renumbered, wait, nil)
	if err != nil || result.Open == nil {
		t.Fatalf("%v, %v", result, err)
	}
	if _, err := w.with(t, beginning, wait, nil); !errors.Is(err, transaction.ErrOpen) {
		t.Errorf("a second transaction: %v", err)
	}
	if err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Rollback(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	w.same(t, before)
	commit := func(m *transaction.Manager) error { return m.Commit(t.Context()) }
	if err := w.manager(t, nil, commit); !errors.Is(err, transaction.ErrNone) {
		t.Errorf("commit without a transaction: %v", err)
	}
	if _, err := w.with(t, renumbered, wait, nil); err != nil {
		t.Fatal(err)
	}
	after := w.show(t)
	if err := w.manager(t, nil, commit); err != nil {
		t.Fatal(err)
	}
	w.same(t, after)
	w.closed(t)
}

func TestGuard_NobodyCommits_HostRestored(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	cmd := w.start(t, job{Dir: w.dir, Desired: renumbered, DieBefore: never, HangBefore: never, OrphanBefore: never, Timeout: 2 * time.Second, NoCommit: true})
	_ = cmd.Wait() // on a slow machine the guard ends it before it has all
	w.closed(t)
	w.same(t, before)
}

func TestTransaction_GuardMissing_NotBegun(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	for name, guard := range map[string]func(string) (int, error){
		"it can't be started": func(string) (int, error) { return 0, errors.New("no memory") },
		"it ends at once":     func(string) (int, error) { return never, nil },
	} {
		_, err := w.with(t, renumbered, transaction.Options{}, func(cfg *transaction.Config) { cfg.Safeguards = guardedBy(cfg, guard) })
		if err == nil || !strings.Contains(err.Error(), "rolls back at the deadline") {
			t.Errorf("%s: %v", name, err)
		}
		w.same(t, before)
	}
}

func TestTransaction_KilledBeforeAnyStep_GuardRestores(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	steps := w.apply(t, renumbered).Steps
	if len(steps) < 8 {
		t.Fatalf("only %v", steps)
	}
	w.apply(t, goBack)
	w.same(t, before)
	for at := range steps {
		w.run(t, job{Dir: w.dir, Desired: renumbered, DieBefore: at, HangBefore: never, OrphanBefore: never, Timeout: time.Hour})
		w.closed(t)
		w.same(t, before)
	}
}

// goBack leads from renumbered to beginning.
const goBack = `
dns-resolver: {config: {server: [192.0.2.1], search: []}}
interfaces:
- {name: br1, state: absent}
- {name: v1, state: absent}
- name: eth0
  mtu: 1500
  ipv4: {enabled: true, address: [{ip: 192.0.2.7, prefix-length: 24}]}
  ipv6: {enabled: true, address: [{ip: "2001:db8::7", prefix-length: 64}]}
routes:
  config:
  - {state: absent, next-hop-interface: eth0}
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: eth0}
  - {destination: 198.51.100.0/24, next-hop-address: 192.0.2.1, next-hop-interface: eth0, table-id: 100}
route-rules:
  config:
  - {state: absent, route-table: 200}
  - {ip-from: 192.0.2.7/32, route-table: 100, priority: 1000}
`

// run runs a process to its end, which is not a good one.
func (w world) run(t *testing.T, j job) {
	t.Helper()
	if err := w.start(t, j).Wait(); err == nil {
		t.Error("the process was not killed")
	}
}

// start starts a process in the node.
func (w world) start(t *testing.T, j job) (cmd *exec.Cmd) {
	t.Helper()
	testnet.In(t, w.node, func() (err error) {
		cmd, err = start(j)
		return err
	})
	return cmd
}

func TestTransaction_ProcessHangs_EndedAtDeadline(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	w.run(t, job{Dir: w.dir, Desired: renumbered, DieBefore: never, HangBefore: 5, OrphanBefore: never, Timeout: 1500 * time.Millisecond})
	w.closed(t)
	w.same(t, before)
}

func TestTransaction_TwoProcessesKilled_NextRestores(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	_, err := w.with(t, renumbered, transaction.Options{NoCommit: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	record := w.record(t)
	if err := unix.Kill(record.Guard, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.ended(t, record.Guard)
	if err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Recover(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	w.same(t, before)
}

func (w world) record(t *testing.T) (r transaction.Record) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "transaction.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w world) put(t *testing.T, r transaction.Record) {
	t.Helper()
	text, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.dir, "transaction.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ended waits until a process is gone.
func (w world) ended(t *testing.T, pid int) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for unix.Kill(pid, 0) == nil {
		<-again.C
	}
}

func TestTransaction_Reboot_Ended(t *testing.T) {
	w := newWorld(t)
	if _, err := w.with(t, renumbered, transaction.Options{NoCommit: true}, nil); err != nil {
		t.Fatal(err)
	}
	record := w.record(t)
	if err := unix.Kill(record.Guard, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	record.Boot = "another"
	w.put(t, record)
	after := w.show(t)
	if err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Recover(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	w.same(t, after)
	if left := w.openFiles(t); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

func TestTransaction_ForeignChangesMeanwhile_Kept(t *testing.T) {
	w := newWorld(t)
	if _, err := w.with(t, "routes: {config: [{destination: 203.0.113.0/24, next-hop-address: 192.0.2.9, next-hop-interface: eth0}]}",
		transaction.Options{NoCommit: true}, nil); err != nil {
		t.Fatal(err)
	}
	testnet.In(t, w.node, addRoute("198.18.0.0/15", "192.0.2.1"))
	testnet.In(t, w.node, removeRouteAndRule("198.51.100.0/24", 100))
	if err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Rollback(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	var destinations []string
	for _, route := range w.show(t).Routes.Config {
		destinations = append(destinations, route.Destination)
	}
	if want := []string{"0.0.0.0/0", "198.18.0.0/15"}; !slices.Equal(destinations, want) {
		t.Errorf("routes are %v, want %v", destinations, want)
	}
	if rules := w.show(t).RouteRules.Config; len(rules) != 0 {
		t.Errorf("rules are %v", rules)
	}
}

func TestTransaction_RouteLostWithSource_Restored(t *testing.T) {
	w := newWorld(t)
	w.apply(t, sourced)
	before := w.show(t)
	// The kernel removes the route with its source, and does not take it back without.
	_, err := w.with(t, "interfaces: [{name: v1, ipv4: {enabled: true, address: []}}]", transaction.Options{}, nil)
	if !errors.Is(err, transaction.ErrRolledBack) {
		t.Errorf("got %v", err)
	}
	w.same(t, before)
}

// removeRouteAndRule removes the route and the rule of a table.
func removeRouteAndRule(destination string, table int) func() error {
	return func() error {
		_, to, err := net.ParseCIDR(destination)
		if err != nil {
			return err
		}
		rule := netlink.NewRule()
		rule.Table, rule.Family = table, netlink.FAMILY_V4
		return errors.Join(netlink.RouteDel(&netlink.Route{Dst: to, Table: table}), netlink.RuleDel(rule))
	}
}

func addRoute(destination, gateway string) func() error {
	return func() error {
		_, to, err := net.ParseCIDR(destination)
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Dst: to, Gw: net.ParseIP(gateway), Protocol: unix.RTPROT_STATIC})
	}
}

func TestTransaction_AlreadyPresent_Committed(t *testing.T) {
	w := newWorld(t)
	const reached = "interfaces: [{name: eth0, description: \"\"}]"
	if result := w.apply(t, reached); len(result.Steps) != 0 {
		t.Fatalf("it takes %v", result.Steps)
	}
	if eth0 := w.committed(t).Interfaces[0]; eth0.Name != "eth0" || eth0.Description == nil {
		t.Errorf("the committed state has %v", eth0)
	}
}

func (w world) committed(t *testing.T) (state *document.State) {
	t.Helper()
	err := w.manager(t, nil, func(m *transaction.Manager) (err error) {
		state, err = m.Committed()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestCommittedState_Forget_RefusedWhileTransactionWaits(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	forget := func(m *transaction.Manager) error { return m.Forget(t.Context()) }
	for range 2 { // the second call finds no transaction
		if err := w.manager(t, nil, forget); err != nil {
			t.Error(err)
		}
	}
	if state := w.committed(t); len(state.Interfaces) != 0 || state.Routes != nil {
		t.Errorf("it is %v", state)
	}
	w.same(t, before)
	if _, err := w.with(t, sourced, transaction.Options{NoCommit: true}, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.manager(t, nil, forget); !errors.Is(err, transaction.ErrOpen) {
		t.Errorf("while a transaction waits: %v", err)
	}
	if err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Rollback(t.Context()) }); err != nil {
		t.Fatal(err)
	}
}
