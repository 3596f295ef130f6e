// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runner runs the state handler of the NodeNetworkState in the daemon. It runs the handler
// on an engine that is opened when it is needed, lets it look when the object or the network
// changes, and tells the engine which parts of the network are in use.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/handler"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// pollNetwork is how often the network of the node is read without a notification of a
// change. A notification comes for all but settings in files of the kernel.
const pollNetwork = 30 * time.Second

// Config configures a Runner.
type Config struct {
	Node   string
	API    handler.API
	Store  *store.Store
	Engine engine.Config
	// Synced reports whether the object of the node was read.
	Synced broadcast.Gate
	Events handler.Events
	Log    *slog.Logger
}

// Runner runs the state handler.
type Runner struct {
	node    string
	store   *store.Store
	network *network
	handler *handler.Handler
	synced  broadcast.Gate
	hints   chan struct{}
	log     *slog.Logger
}

// New returns a Runner. It opens nothing yet.
func New(cfg Config) *Runner {
	r := &Runner{
		node: cfg.Node, store: cfg.Store, network: &network{cfg: cfg.Engine}, synced: cfg.Synced,
		hints: make(chan struct{}, 1), log: cfg.Log,
	}
	r.handler = handler.New(handler.Config{
		Node: cfg.Node, API: cfg.API, Engine: r.network, Wanted: r.wanted, Hints: r.hints,
		Poll: pollNetwork, Timeout: engine.DefaultTimeout, Events: cfg.Events, Log: cfg.Log,
	})
	return r
}

// Run keeps the state until ctx ends. It first undoes what a daemon that has ended has
// begun, which needs no API server.
func (r *Runner) Run(ctx context.Context) {
	defer r.network.close()
	if _, err := r.network.engine(ctx); err != nil {
		r.log.Warn("can't open the network of the node; trying again", "error", err)
	}
	if !r.synced.Wait(ctx) {
		return
	}
	r.handler.Run(ctx)
}

// errChanging reports that the network of the node changes, or may still change back. It may as
// long as its engine is not open.
var errChanging = errors.New("a change of the network may be open")

// Current returns the current state of the node as the kernel has it, in the form of a report. It
// returns nil while a change is open.
func (r *Runner) Current(ctx context.Context) (state map[string]any, err error) {
	e := r.network.opened()
	if e == nil || e.IsChanging() {
		return nil, errChanging
	}
	text, err := handler.Current(ctx, e)
	if err != nil {
		return nil, err
	}
	if e.IsChanging() {
		return nil, errChanging
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return nil, fmt.Errorf("read the state of the node: %w", err)
	}
	return state, nil
}

// retryDHCP is the time between attempts to run the DHCP clients.
const retryDHCP = 5 * time.Second

// ServeDHCP runs the DHCP clients of the node until ctx ends. It needs no API server: leases
// are renewed without it.
func (r *Runner) ServeDHCP(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.network.serveDHCP(ctx)
		if ctx.Err() != nil {
			return
		}
		r.log.Warn("can't run the DHCP clients of the node; trying again", "error", err)
		timer := time.NewTimer(retryDHCP)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Look requests a pass of the handler.
func (r *Runner) Look() {
	select {
	case r.hints <- struct{}{}:
	default: // it will look in any case
	}
}

// Watch looks at each change of what the object asks for until ctx ends.
func (r *Runner) Watch(ctx context.Context) {
	type asked struct {
		uid        string
		generation int64
	}
	var last asked
	for {
		err := r.store.Wait(ctx, func(tx store.ReadTx, _ *store.WatchSet) bool {
			var now asked
			if row := nmstate.GetState(tx, r.node); row != nil {
				now = asked{row.UID, row.Generation}
			}
			changed := now != last
			last = now
			return changed
		})
		if err != nil {
			return
		}
		r.Look()
	}
}

// wanted returns the demands of the object, from rows that were read before the handler runs.
func (r *Runner) wanted(context.Context) (w handler.Wanted, err error) {
	r.store.View(func(tx store.ReadTx) {
		if node := store.GetNode(tx, r.node); node != nil {
			w.NodeUID = types.UID(node.UID)
		}
		row := nmstate.GetState(tx, r.node)
		if row == nil {
			return
		}
		w.UID, w.Generation, w.Unmanaged, w.Desired = types.UID(row.UID), row.Generation, !row.Managed, row.Desired
		w.Reach, w.PolicyReach, w.Parts = row.Reach, row.PolicyReach, row.Parts
		if w.Desired == nil {
			w.Invalid = row.Invalid
		}
	})
	return w, nil
}
