// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/host"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/probe"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/test/waits"
)

// jobVariable has the job of a process that a test starts.
const jobVariable = "ALIOTH_TEST_TRANSACTION_JOB"

// job is the work of such a process in its network namespace.
type job struct {
	Dir string
	// Guard is the transaction to guard, "" to apply Desired.
	Guard   string
	Desired string
	// DieBefore kills the process before so many steps, HangBefore stops it there, and OrphanBefore
	// kills its guard there.
	DieBefore, HangBefore, OrphanBefore int
	Timeout                             time.Duration
	NoCommit                            bool
}

const never = 1 << 30

// deadly is a Host whose process ends or hangs before a step.
type deadly struct {
	transaction.Host
	job  job
	done int
}

func (d *deadly) Do(ctx context.Context, step plan.Step) error {
	if d.done == d.job.OrphanBefore {
		if err := killGuard(d.job.Dir); err != nil {
			return err
		}
	}
	switch d.done {
	case d.job.DieBefore:
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case d.job.HangBefore:
		select {}
	}
	d.done++
	return d.Host.Do(ctx, step)
}

// killGuard kills the guard of the open transaction.
func killGuard(dir string) error {
	var r transaction.Record
	text, err := os.ReadFile(filepath.Join(dir, "transaction.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil {
		err = unix.Kill(r.Guard, unix.SIGKILL)
	}
	return err
}

// TestTransaction_HelperProcess_RunsWorker is the work of the processes that the other tests start.
func TestTransaction_HelperProcess_RunsWorker(t *testing.T) {
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
	return host.Open(resolvconf.New(dir, "resolv.conf"), func(document.Interface) bool { return false })
}

func config(dir string, h transaction.Host) transaction.Config {
	return transaction.Config{
		Dir: dir, Host: h,
		Safeguards: safeguards{before: asking(), start: func(id string) (int, error) {
			cmd, err := start(job{Dir: dir, Guard: id, DieBefore: never, HangBefore: never, OrphanBefore: never})
			if err != nil {
				return 0, err
			}
			go func() { _ = cmd.Wait() }()
			return cmd.Process.Pid, nil
		}},
		Tries: 5, Interval: 100 * time.Millisecond, ProbeLimit: 10 * time.Second, Log: os.Stderr,
	}
}

// safeguards permit everything and wait for nothing.
type safeguards struct {
	start  func(id string) (int, error)
	before func(context.Context, probe.Change) func(*document.State) []probe.Probe
}

func (safeguards) Permit(*document.State, []plan.Step) error { return nil }

func (s safeguards) StartGuard(id string) (int, error) { return s.start(id) }

func (s safeguards) Probes(ctx context.Context, c probe.Change) func(*document.State) []probe.Probe {
	return s.before(ctx, c)
}

func (safeguards) Ready(context.Context, []document.Interface) error { return nil }

// asks returns the safeguards of a configuration, with probes.
func asks(cfg *transaction.Config, before func(context.Context, probe.Change) func(*document.State) []probe.Probe) safeguards {
	s := cfg.Safeguards.(safeguards)
	s.before = before
	return s
}

// guardedBy returns the safeguards of a configuration, with another guard.
func guardedBy(cfg *transaction.Config, start func(id string) (int, error)) safeguards {
	s := cfg.Safeguards.(safeguards)
	s.start = start
	return s
}

// asking returns a function of Safeguards.Probes that asks the given probes after each change.
func asking(probes ...probe.Probe) func(context.Context, probe.Change) func(*document.State) []probe.Probe {
	return func(context.Context, probe.Change) func(*document.State) []probe.Probe {
		return func(*document.State) []probe.Probe { return probes }
	}
}

// start starts a process in the network namespace of the calling thread.
func start(j job) (*exec.Cmd, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestTransaction_HelperProcess_RunsWorker$")
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

// sourced has a route on eth0 whose source is an address of v1.
const sourced = `
interfaces:
- name: v1
  type: veth
  veth: {peer: v2}
  ipv4: {enabled: true, address: [{ip: 10.1.0.1, prefix-length: 32}]}
- {name: v2, type: veth, veth: {peer: v1}}
routes:
  config:
  - {destination: 203.0.113.0/24, next-hop-address: 192.0.2.1, next-hop-interface: eth0, source: 10.1.0.1}
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

// openFiles returns the files that an open transaction leaves in the folder.
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
	for end := time.Now().Add(waits.Limit(30 * time.Second)); len(w.openFiles(t)) > 0; <-again.C {
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(w.dir, "log"))
			t.Fatalf("%v are left; log:\n%s", w.openFiles(t), log)
		}
	}
}
