// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keeper keeps the NodeNetworkState of a node for the daemon: it runs the state handler
// on an engine that is opened when it is needed, lets it look when the object or the network
// changes, and tells the engine which parts of the network are in use.
package keeper

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

// Config configures a Keeper.
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

// Keeper runs the state handler.
type Keeper struct {
	node    string
	store   *store.Store
	network *network
	handler *handler.Handler
	synced  broadcast.Gate
	hints   chan struct{}
	log     *slog.Logger
}

// New returns a keeper that has opened nothing yet.
func New(cfg Config) *Keeper {
	k := &Keeper{
		node: cfg.Node, store: cfg.Store, network: &network{cfg: cfg.Engine}, synced: cfg.Synced,
		hints: make(chan struct{}, 1), log: cfg.Log,
	}
	k.handler = handler.New(handler.Config{
		Node: cfg.Node, API: cfg.API, Engine: k.network, Wanted: k.wanted, Hints: k.hints,
		Poll: pollNetwork, Timeout: engine.DefaultTimeout, Events: cfg.Events, Log: cfg.Log,
	})
	return k
}

// Run keeps the state until ctx ends. It first undoes what a daemon that has ended has
// begun, which needs no API server.
func (k *Keeper) Run(ctx context.Context) {
	defer k.network.close()
	if _, err := k.network.engine(ctx); err != nil {
		k.log.Warn("can't open the network of the node; trying again", "error", err)
	}
	if !k.synced.Wait(ctx) {
		return
	}
	k.handler.Run(ctx)
}

// errChanging reports that the network of the node changes, or may still change back. It may as
// long as its engine is not open.
var errChanging = errors.New("a change of the network may be open")

// Current returns the current state of the node as the kernel has it, in the form of a report. It
// returns nil while a change is open.
func (k *Keeper) Current(ctx context.Context) (state map[string]any, err error) {
	e := k.network.opened()
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
func (k *Keeper) ServeDHCP(ctx context.Context) {
	for ctx.Err() == nil {
		err := k.network.serveDHCP(ctx)
		if ctx.Err() != nil {
			return
		}
		k.log.Warn("can't run the DHCP clients of the node; trying again", "error", err)
		timer := time.NewTimer(retryDHCP)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Look lets the keeper look at the network.
func (k *Keeper) Look() {
	select {
	case k.hints <- struct{}{}:
	default: // it will look in any case
	}
}

// Follow looks at each change of what the object asks for until ctx ends.
func (k *Keeper) Follow(ctx context.Context) {
	type asked struct {
		uid        string
		generation int64
	}
	var last asked
	for {
		err := k.store.Wait(ctx, func(tx store.ReadTx, _ *store.WatchSet) bool {
			var now asked
			if row := nmstate.GetState(tx, k.node); row != nil {
				now = asked{row.UID, row.Generation}
			}
			changed := now != last
			last = now
			return changed
		})
		if err != nil {
			return
		}
		k.Look()
	}
}

// wanted is what the object asks for. It was read before the handler runs.
func (k *Keeper) wanted(context.Context) (w handler.Wanted, err error) {
	k.store.View(func(tx store.ReadTx) {
		if node := store.GetNode(tx, k.node); node != nil {
			w.NodeUID = types.UID(node.UID)
		}
		row := nmstate.GetState(tx, k.node)
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
