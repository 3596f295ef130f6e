// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"
	"time"

	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
)

// Pauses after passes that have failed.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// Run makes passes for a node until ctx ends: whenever the node's rows change, when time
// changes the result, and after a failure again, with pauses that grow from a second to a
// minute. It makes none while the store is not synced: synced reports whether it has all
// policies, and the node's own enactments and state.
func (h *Handler) Run(ctx context.Context, node string, synced broadcast.Gate) {
	var last rows
	var pause, wait time.Duration
	due := true
	for {
		next, ok := h.await(ctx, wait, func(tx store.ReadTx, ws *store.WatchSet) (rows, bool) {
			ready, changed := synced()
			ws.Add(changed)
			r := readRows(tx, node)
			return r, ready && (due || !r.equal(last))
		})
		if ctx.Err() != nil {
			return
		}
		if !ok { // the time is up, and the store may be out of sync
			due, wait = true, 0
			continue
		}
		last, due = next, false
		again, err := h.pass(ctx, node, last)
		wait, pause = h.plan(node, again, err, pause)
	}
}

// await waits until the rows differ, for at most a time if that is not 0, and returns false if
// they stayed the same.
func (h *Handler) await(
	ctx context.Context,
	wait time.Duration,
	other func(store.ReadTx, *store.WatchSet) (rows, bool),
) (next rows, ok bool) {
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	err := h.cfg.Store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
		next, ok = other(tx, ws)
		return ok
	})
	return next, err == nil
}

// plan returns how long to wait for other rows until the next pass, 0 for as long as it
// takes, and the pause after the last failure, 0 after a success.
func (h *Handler) plan(node string, again time.Duration, err error, pause time.Duration) (wait, next time.Duration) {
	switch {
	case err == nil:
		return again, 0
	case isStale(err):
		h.tellStale(node, err)
		return retryAfter, pause
	}
	next = min(max(2*pause, firstPause), lastPause)
	h.cfg.Log.Warn(
		"can't bring the policies of a node up to date; trying again",
		"node",
		node,
		"pause",
		next,
		"error",
		err,
	)
	return next, next
}
