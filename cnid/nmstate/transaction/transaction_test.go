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
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/host"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/probe"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// jobVariable has the job of a process that a test starts.
const jobVariable = "ALIOTH_TEST_TRANSACTION_JOB"

// job is what such a process does in the network namespace in which it is started.
type job struct {
	Dir string
	// Guard is the transaction to guard, "" to apply Desired.
	Guard   string
	Desired string
	// DieBefore kills the process before so many steps, HangBefore stops it there.
	DieBefore, HangBefore int
	Timeout               time.Duration
	NoCommit              bool
}

const never = 1 << 30

// deadly is a Host whose process ends or hangs before a step.
type deadly struct {
	transaction.Host
	job  job
	done int
}

func (d *deadly) Do(ctx context.Context, step plan.Step) error {
	switch d.done {
	case d.job.DieBefore:
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case d.job.HangBefore:
		select {}
	}
	d.done++
	return d.Host.Do(ctx, step)
}

// TestWorker is the work of the processes that the other tests start.
func TestWorker(t *testing.T) {
	text := os.Getenv(jobVariable)
	if text == "" {
		return
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	if err := work(t.Context(), j); err != nil {
		t.Fatal(err)
	}
}

func work(ctx context.Context, j job) error {
	h, err := open(j.Dir)
	if err != nil {
		return err
	}
	defer h.Close()
	m, err := transaction.New(config(j.Dir, &deadly{Host: h, job: j}))
	if err != nil {
		return err
	}
	if j.Guard != "" {
		return m.Guard(ctx, j.Guard)
	}
	desired, err := document.Parse([]byte(j.Desired))
	if err == nil {
		_, err = m.Apply(ctx, desired, transaction.Options{Timeout: j.Timeout, NoCommit: j.NoCommit})
	}
	return err
}

func open(dir string) (*host.Host, error) {
	return host.Open(resolvconf.New(filepath.Join(dir, "resolv.conf")), func(document.Interface) bool { return false })
}

func config(dir string, h transaction.Host) transaction.Config {
	return transaction.Config{
		Dir: dir, Host: h,
		StartGuard: func(id string) (int, error) {
			cmd, err := start(job{Dir: dir, Guard: id, DieBefore: never, HangBefore: never})
			if err != nil {
				return 0, err
			}
			go func() { _ = cmd.Wait() }()
			return cmd.Process.Pid, nil
		},
		Probes: func(*document.State) []probe.Probe { return nil },
		Permit: func(*document.State, []plan.Step) error { return nil },
		Tries:  5, Interval: 100 * time.Millisecond, ProbeLimit: 10 * time.Second, Log: os.Stderr,
	}
}

// start starts a process in the network namespace of the calling thread.
func start(j job) (*exec.Cmd, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestWorker$")
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	log, err := os.OpenFile(filepath.Join(j.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	return cmd, cmd.Start()
}

// world is a node with eth0, which has addresses and a default route, beside a gateway.
type world struct {
	node, gateway ns.NetNS
	dir           string
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := world{node: testnet.New(t), gateway: testnet.New(t), dir: t.TempDir()}
	testnet.Veth(t, w.node, "eth0", nil, w.gateway, "eth0", []string{"192.0.2.1/24"})
	w.write(t, "nameserver 192.0.2.1\n")
	w.apply(t, beginning)
	return w
}

// beginning is the state that the tests return to.
const beginning = `
interfaces:
- name: eth0
  ipv4: {enabled: true, address: [{ip: 192.0.2.7, prefix-length: 24}]}
  ipv6: {enabled: true, address: [{ip: "2001:db8::7", prefix-length: 64}]}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: eth0}
  - {destination: 198.51.100.0/24, next-hop-address: 192.0.2.1, next-hop-interface: eth0, table-id: 100}
route-rules:
  config:
  - {ip-from: 192.0.2.7/32, route-table: 100, priority: 1000}
`

// renumbered changes much of it.
const renumbered = `
dns-resolver: {config: {server: [203.0.113.53], search: [example.com]}}
interfaces:
- name: eth0
  mtu: 1400
  ipv4: {enabled: true, address: [{ip: 203.0.113.7, prefix-length: 24}]}
  ipv6: {enabled: false}
- name: br1
  type: linux-bridge
  ipv4: {enabled: true, address: [{ip: 10.1.0.1, prefix-length: 16}]}
  bridge: {port: [{name: v1}], options: {stp: {enabled: false}}}
- name: v1
  type: veth
  veth: {peer: v2}
- name: v2
  type: veth
  veth: {peer: v1}
  ipv4: {enabled: true, address: [{ip: 10.1.0.2, prefix-length: 16}]}
routes:
  config:
  - {state: absent, next-hop-interface: eth0}
  - {destination: 0.0.0.0/0, next-hop-address: 203.0.113.1, next-hop-interface: eth0}
route-rules:
  config:
  - {state: absent, route-table: 100}
  - {ip-from: 10.1.0.0/16, route-table: 200, priority: 2000}
`

func (w world) write(t *testing.T, resolver string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "resolv.conf"), []byte(resolver), 0o600); err != nil {
		t.Fatal(err)
	}
}

// manager calls f with a Manager in the node.
func (w world) manager(t *testing.T, change func(*transaction.Config), f func(*transaction.Manager) error) error {
	t.Helper()
	var failure error
	testnet.In(t, w.node, func() error {
		h, err := open(w.dir)
		if err != nil {
			return err
		}
		defer h.Close()
		cfg := config(w.dir, h)
		cfg.Log = t.Output()
		if change != nil {
			change(&cfg)
		}
		m, err := transaction.New(cfg)
		if err == nil {
			failure = f(m)
		}
		return err
	})
	return failure
}

// with applies a state, and returns its error.
func (w world) with(t *testing.T, text string, o transaction.Options, change func(*transaction.Config)) (result *transaction.Result, err error) {
	t.Helper()
	desired, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	// The guard would end the test's own process, whose deadline comes first.
	o.Timeout = time.Hour
	err = w.manager(t, change, func(m *transaction.Manager) (err error) {
		result, err = m.Apply(t.Context(), desired, o)
		return err
	})
	return result, err
}

func (w world) apply(t *testing.T, text string) *transaction.Result {
	t.Helper()
	result, err := w.with(t, text, transaction.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func (w world) show(t *testing.T) (state *document.State) {
	t.Helper()
	testnet.In(t, w.node, func() error {
		h, err := open(w.dir)
		if err != nil {
			return err
		}
		defer h.Close()
		state, err = h.Show(t.Context())
		return err
	})
	return state
}

// same fails the test unless the node has a state.
func (w world) same(t *testing.T, want *document.State, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, w.show(t), options...); diff != "" {
		log, _ := os.ReadFile(filepath.Join(w.dir, "log"))
		t.Fatalf("the node's state (-want +got):\n%s\nlog:\n%s", diff, log)
	}
}

// files are those of the folder that a transaction leaves while it is open.
func (w world) openFiles(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(w.dir, "transaction*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// closed waits until no transaction is open.
func (w world) closed(t *testing.T) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(30 * time.Second); len(w.openFiles(t)) > 0; <-again.C {
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(w.dir, "log"))
			t.Fatalf("%v are left; log:\n%s", w.openFiles(t), log)
		}
	}
}

func TestAStateIsAppliedOnceAndCommitted(t *testing.T) {
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

func TestTheCommittedStateMakesAHostAnewAfterItsBoot(t *testing.T) {
	w := newWorld(t)
	w.apply(t, renumbered)
	want := w.show(t)
	committed, err := os.ReadFile(filepath.Join(w.dir, "committed.json"))
	if err != nil {
		t.Fatal(err)
	}
	// A boot ends what was made and set, and keeps the hardware and the files.
	w.apply(t, goBack)
	w.apply(t, "routes: {config: [{state: absent, next-hop-interface: eth0}]}\nroute-rules: {config: [{state: absent, route-table: 100}]}")
	w.apply(t, string(committed))
	w.same(t, want, cmpopts.IgnoreFields(document.Interface{}, "MACAddress")) // the kernel chooses new ones
}

func TestAFailedStepIsUndone(t *testing.T) {
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

func TestALostConnectionIsUndone(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	watched := func(cfg *transaction.Config) {
		cfg.Probes = func(*document.State) []probe.Probe {
			return []probe.Probe{{Name: "the gateway", Check: func(context.Context) error {
				// The node has moved to another network if it lost this address.
				if !slices.ContainsFunc(w.show(t).Interfaces, hasAddress("192.0.2.7")) {
					return errors.New("no answer")
				}
				return nil
			}}, {Name: "what was not reached before", Check: func(context.Context) error { return errors.New("no answer") }}}
		}
		cfg.ProbeLimit = 100 * time.Millisecond
	}
	_, err := w.with(t, renumbered, transaction.Options{}, watched)
	if !errors.Is(err, transaction.ErrRolledBack) || !strings.Contains(err.Error(), "the gateway was reached before and is not now: no answer") {
		t.Errorf("got %v", err)
	}
	w.same(t, before)
}

func hasAddress(ip string) func(document.Interface) bool {
	return func(i document.Interface) bool {
		return i.IPv4 != nil && slices.ContainsFunc(i.IPv4.Addresses, func(a document.Address) bool { return a.IP == ip })
	}
}

func TestATransactionWaitsForItsCommit(t *testing.T) {
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

func TestTheGuardRestoresWhatNobodyCommits(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	cmd := w.start(t, job{Dir: w.dir, Desired: renumbered, DieBefore: never, HangBefore: never, Timeout: 2 * time.Second, NoCommit: true})
	_ = cmd.Wait() // on a slow machine the guard ends it before it has all
	w.closed(t)
	w.same(t, before)
}

func TestWithoutItsGuardATransactionDoesNotBegin(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	for name, guard := range map[string]func(string) (int, error){
		"it can't be started": func(string) (int, error) { return 0, errors.New("no memory") },
		"it ends at once":     func(string) (int, error) { return never, nil },
	} {
		_, err := w.with(t, renumbered, transaction.Options{}, func(cfg *transaction.Config) { cfg.StartGuard = guard })
		if err == nil || !strings.Contains(err.Error(), "rolls back at the deadline") {
			t.Errorf("%s: %v", name, err)
		}
		w.same(t, before)
	}
}

func TestAProcessIsKilledBeforeAnyStepAndTheGuardRestoresTheHost(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	steps := w.apply(t, renumbered).Steps
	if len(steps) < 8 {
		t.Fatalf("only %v", steps)
	}
	w.apply(t, goBack)
	w.same(t, before)
	for at := range steps {
		w.run(t, job{Dir: w.dir, Desired: renumbered, DieBefore: at, HangBefore: never, Timeout: time.Hour})
		w.closed(t)
		w.same(t, before)
	}
}

// goBack leads from renumbered to beginning.
const goBack = `
dns-resolver: {config: {server: [192.0.2.1]}}
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

func TestAProcessThatHangsIsEndedAtTheDeadline(t *testing.T) {
	w := newWorld(t)
	before := w.show(t)
	w.run(t, job{Dir: w.dir, Desired: renumbered, DieBefore: never, HangBefore: 5, Timeout: 1500 * time.Millisecond})
	w.closed(t)
	w.same(t, before)
}

func TestTheNextProcessRestoresWhatTwoKilledOnesLeft(t *testing.T) {
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

// ended waits until a process is gone.
func (w world) ended(t *testing.T, pid int) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for unix.Kill(pid, 0) == nil {
		<-again.C
	}
}

func TestATransactionEndsWithItsBoot(t *testing.T) {
	w := newWorld(t)
	if _, err := w.with(t, renumbered, transaction.Options{NoCommit: true}, nil); err != nil {
		t.Fatal(err)
	}
	record := w.record(t)
	if err := unix.Kill(record.Guard, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	record.Boot = "another"
	text, err := json.Marshal(record)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.dir, "transaction.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	after := w.show(t)
	if err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Recover(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	w.same(t, after)
	if left := w.openFiles(t); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

func TestWhatOthersChangeMeanwhileStays(t *testing.T) {
	w := newWorld(t)
	if _, err := w.with(t, "routes: {config: [{destination: 203.0.113.0/24, next-hop-address: 192.0.2.9, next-hop-interface: eth0}]}",
		transaction.Options{NoCommit: true}, nil); err != nil {
		t.Fatal(err)
	}
	testnet.In(t, w.node, addRoute("198.18.0.0/15", "192.0.2.1"))
	if err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Rollback(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	var destinations []string
	for _, route := range w.show(t).Routes.Config {
		destinations = append(destinations, route.Destination)
	}
	if !slices.Contains(destinations, "198.18.0.0/15") || slices.Contains(destinations, "203.0.113.0/24") {
		t.Errorf("routes are %v", destinations)
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
