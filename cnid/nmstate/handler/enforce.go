// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/reach"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// outcome is what became of an attempt to enforce a desired state. The zero value is that
// of no attempt.
type outcome struct {
	// tried is true for an attempt.
	tried bool
	// hash, foreign and reach are those of the order.
	hash    string
	foreign foreign
	reach   []reach.Target
	// err is why the node does not have the desired state. It is refused if another attempt
	// is in vain while neither the document nor the node changes.
	err     error
	refused bool
	// failures is how many attempts in a row have failed, again the time of the next one
	// without a change; zero for none.
	failures int
	again    time.Time
	// seen is the current state before the attempt, in JSON; "" if the attempt changed it.
	seen string
}

// enforce leads the node to the desired state if that is necessary, and returns the current
// state in JSON, "" if it can't be read. The result is in h.last.
func (h *Handler) enforce(ctx context.Context) (current string) {
	order, err := orderOf(h.wanted, h.cfg.Engine.Manager)
	if err == nil {
		current, err = h.show(ctx)
	}
	if err != nil {
		if h.last.err == nil || h.dueWith(order, h.last.seen) {
			h.conclude(order, h.last.seen, false, err)
		}
		return ""
	}
	if !h.dueWith(order, current) {
		return current
	}
	changed, refused, err := h.lead(ctx, order)
	if !changed {
		h.conclude(order, current, refused, err)
		return current
	}
	// The network can have drifted since the engine verified it. So no state counts as seen,
	// and the pass that the change itself causes plans once more.
	h.conclude(order, "", refused, err)
	if now, err := h.show(ctx); err == nil { // The next pass reads it otherwise.
		current = now
	}
	return current
}

// dueWith reports whether an order has to be enforced while the current state is this one.
func (h *Handler) dueWith(o order, current string) bool {
	last := h.last
	switch {
	case !last.tried || last.hash != o.hash || last.foreign != o.foreign || !slices.Equal(last.reach, o.reach):
		return true
	case !last.again.IsZero() && !time.Now().Before(last.again):
		return true
	case last.err != nil && !last.refused:
		return false // The attempt itself has changed the node, and the pause goes on.
	default:
		return last.seen != current
	}
}

// lead leads the node to the desired state. changed is true if the network of the node may
// not be what it was before.
func (h *Handler) lead(ctx context.Context, o order) (changed, refused bool, err error) {
	if o.document == nil || o.fault != nil {
		return false, o.fault != nil, o.fault
	}
	if _, err := h.cfg.Engine.Plan(ctx, o.document); err != nil {
		return false, ctx.Err() == nil, err
	}
	// With nothing to change, it commits the desired state for the next boot.
	result, err := h.cfg.Engine.Apply(ctx, o.document, transaction.Options{Timeout: h.cfg.Timeout, Reach: o.reach})
	if err != nil {
		return true, false, err
	}
	if len(result.Steps) > 0 {
		h.cfg.Log.Info("the node has the desired network state", "steps", len(result.Steps))
	}
	return len(result.Steps) > 0, false, nil
}

func (h *Handler) conclude(o order, seen string, refused bool, err error) {
	next := outcome{tried: true, hash: o.hash, foreign: o.foreign, reach: o.reach, err: err, refused: refused, seen: seen}
	if err != nil {
		next.failures = 1
		if h.last.hash == o.hash {
			next.failures += h.last.failures
		}
		pause := pauseAfter(next.failures)
		if refused {
			pause = longestPause
		}
		next.again = time.Now().Add(pause)
	}
	h.last = next
}

// show returns the current state in JSON, without lifetimes: they change all the time, and a
// state that changes is reported, and compared with what is desired.
func (h *Handler) show(ctx context.Context) (string, error) {
	state, err := h.cfg.Engine.Show(ctx)
	if err != nil {
		return "", fmt.Errorf("read the network of the node: %w", err)
	}
	text, err := json.Marshal(state.WithoutLifetimes())
	return string(text), err
}
