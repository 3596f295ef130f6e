// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine shows and changes the network of a node: it connects host, transactions, guard,
// probes and permissions. The daemon and aliothctl both use it, and may do so at the same time on
// one node.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/nmstate/reach"
	"github.com/alioth-net/alioth/cnid/nmstate/automatic"
	"github.com/alioth-net/alioth/cnid/nmstate/bootunit"
	"github.com/alioth-net/alioth/cnid/nmstate/host"
	"github.com/alioth-net/alioth/cnid/nmstate/managers"
	"github.com/alioth-net/alioth/cnid/nmstate/permit"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/probe"
	"github.com/alioth-net/alioth/cnid/nmstate/reserved"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// DefaultDir is the folder of transactions of a node.
const DefaultDir = "/var/lib/alioth/nmstate"

// DefaultTimeout is how long a change may take until it is undone: its steps, and then
// DefaultProbeLimit.
const DefaultTimeout = 2 * time.Minute

// DefaultProbeLimit is how long gateways, servers and targets have to answer after a change.
const DefaultProbeLimit = time.Minute

// DefaultBinary is aliothctl as a node names it.
const DefaultBinary = "/usr/local/bin/aliothctl"

// How often a result is compared with the desired state, and the time between.
const (
	tries    = 5
	interval = time.Second
)

// Config configures an Engine.
type Config struct {
	// Dir has the transactions, the committed state and the log of the guard. "" is
	// DefaultDir. A daemon in a container has it at the path that the node has it at.
	Dir string
	// Root is the node's file system: "/" on the node itself, "/proc/1/root" in a container
	// that shares the node's PID namespace. "" is "/".
	Root string
	// Guard is the command that runs the guard: a binary, for example of os.Executable, and
	// arguments. The engine appends the transaction's ID. The command calls Guard with the
	// same Dir. In a container it runs on the node, from a copy of the
	// binary in Dir. Without it no change can be made.
	Guard []string
	// APIServer has to accept connections after a change if it does before. The zero value means
	// that no server is asked.
	APIServer reach.Target
	// Binary is aliothctl as the node names it, for the unit. "" is DefaultBinary.
	Binary string
	// Others recognizes interfaces outside the node's own network. Without its Interface it
	// behaves like reserved.Is.
	Others host.Others
	// Uses returns the used parts of the node's network, which no change takes away. nil means
	// that nothing is used.
	Uses func() []permit.Use
	// Log has a line for each step.
	Log io.Writer
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		value *string
		text  string
	}{{&c.Dir, DefaultDir}, {&c.Root, "/"}, {&c.Binary, DefaultBinary}} {
		if *d.value == "" {
			*d.value = d.text
		}
	}
	if c.Others.Interface == nil {
		c.Others.Interface = reserved.Is
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	return c
}

// Engine is the network of a node, and what changes it. Several goroutines may use it.
type Engine struct {
	cfg          Config
	space        ns.NetNS
	host         *host.Host
	store        *automatic.Store
	transactions *transaction.Manager
}

// Open returns the engine of the calling thread's network namespace, for the caller to
// close. It makes the folder of transactions.
func Open(cfg Config) (*Engine, error) { return open(cfg, transaction.New) }

func open(cfg Config, manager func(transaction.Config) (*transaction.Manager, error)) (e *Engine, err error) {
	e = &Engine{cfg: cfg.withDefaults()}
	if e.space, err = ns.GetCurrentNS(); err != nil {
		return nil, fmt.Errorf("open the network namespace: %w", err)
	}
	resolver := resolvconf.New(e.cfg.Root, resolvconf.DefaultPath).KeepingAt(filepath.Join(e.cfg.Dir, "resolver.json"))
	if e.host, err = host.OpenBeside(resolver, e.cfg.Others, e.committedHardware); err != nil {
		return nil, errors.Join(err, e.space.Close())
	}
	rules := permit.Rules{Host: permitHost{e, resolver}}
	asker := probe.Asker{Space: e.space, APIServer: cfg.APIServer}
	guards := &guards{command: e.cfg.Guard, dir: e.cfg.Dir, root: e.cfg.Root, space: e.space}
	e.transactions, err = manager(transaction.Config{
		Dir: e.cfg.Dir, Host: e.host, Safeguards: safeguards{guards, e, rules, asker},
		Tries: tries, Interval: interval, ProbeLimit: DefaultProbeLimit, Log: e.cfg.Log,
	})
	if err == nil {
		err = e.keepAutomatic()
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// safeguards implements transaction.Safeguards.
type safeguards struct {
	*guards
	engine *Engine
	rules  permit.Rules
	asker  probe.Asker
}

// Permit implements transaction.Safeguards.
func (s safeguards) Permit(before *document.State, steps []plan.Step) error {
	return s.rules.Steps(before, steps)
}

// Probes implements transaction.Safeguards.
func (s safeguards) Probes(ctx context.Context, c probe.Change) func(now *document.State) []probe.Probe {
	return s.asker.Before(ctx, c)
}

// Ready implements transaction.Safeguards.
func (s safeguards) Ready(ctx context.Context, changed []document.Interface) error {
	return s.engine.readyAfter(ctx, changed)
}

// Close closes it.
func (e *Engine) Close() {
	e.host.Close()
	// Nothing was written, so nothing is lost when closing fails.
	_ = e.space.Close()
}

// Show returns the current state, without the parts that belong to others.
func (e *Engine) Show(ctx context.Context) (*document.State, error) {
	state, err := e.host.Show(ctx)
	if err == nil {
		sayUnusedDNS(state)
	}
	return state, err
}

// IsChanging reports whether a change may still be undone.
func (e *Engine) IsChanging() bool { return e.transactions.IsOpen() }

// Plan returns the steps that Apply would carry out. Steps that come with an error may not
// be carried out.
func (e *Engine) Plan(ctx context.Context, desired *document.State) ([]plan.Step, error) {
	desired, err := e.check(ctx, desired)
	if err != nil {
		return nil, err
	}
	return e.transactions.Plan(ctx, desired)
}

// Apply leads the node to a desired state, as transaction.Manager.Apply does.
func (e *Engine) Apply(
	ctx context.Context,
	desired *document.State,
	o transaction.Options,
) (*transaction.Result, error) {
	desired, err := e.check(ctx, desired)
	if err != nil {
		return nil, err
	}
	return e.transactions.Apply(ctx, desired, o)
}

// check returns a document with names of interfaces in place of alternative ones, and why it must
// not be applied: it is about what belongs to others.
func (e *Engine) check(ctx context.Context, desired *document.State) (*document.State, error) {
	named, err := e.host.Check(ctx, desired)
	return named, errors.Join(reserved.Check(desired), err)
}

// Commit keeps what the open transaction has changed. Without one it is a
// transaction.ErrNone.
func (e *Engine) Commit(ctx context.Context) error { return e.transactions.Commit(ctx) }

// Rollback restores the state before the open transaction. Without one it is a
// transaction.ErrNone.
func (e *Engine) Rollback(ctx context.Context) error { return e.transactions.Rollback(ctx) }

// Unrestored returns the last change that was undone without the whole state before, as
// transaction.Manager.Unrestored does.
func (e *Engine) Unrestored() (*transaction.Unrestored, error) { return e.transactions.Unrestored() }

// Recover rolls back what a process that has ended left open.
func (e *Engine) Recover(ctx context.Context) error { return e.transactions.Recover(ctx) }

// Manager returns the program that manages an interface besides the engine, as
// managers.Root.Of does, "" if none does. The name may be an alternative one.
func (e *Engine) Manager(name string) (string, error) {
	name, err := e.host.NameOf(context.Background(), name)
	if err != nil {
		return "", err
	}
	return managers.Root(e.cfg.Root).Of(name)
}

// Unit is the unit that applies the committed state at each boot of the node.
func (e *Engine) Unit() bootunit.Unit { return e.cfg.Unit() }

// Unit returns the unit of an engine with the configuration. A node whose state cannot be read
// may get a unit, too.
func (c Config) Unit() bootunit.Unit {
	c = c.withDefaults()
	return bootunit.Unit{Root: c.Root, Binary: c.Binary, Dir: c.Dir}
}

// committedHardware are the interfaces that the committed state takes for hardware.
func (e *Engine) committedHardware() ([]string, error) {
	committed, err := e.transactions.Committed()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range committed.Interfaces {
		if i.Type == document.Ethernet {
			names = append(names, i.Name)
		}
	}
	return names, nil
}
