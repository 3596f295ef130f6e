// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/nmstate/reach"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// outcome is the result of an attempt to enforce a part of a desired state. The zero value means
// that the part has not been attempted.
type outcome struct {
	// hash, foreign and reach are copies of the fields of the order.
	hash    string
	foreign foreign
	reach   []reach.Target
	// err is why the node does not have the part. It is refused if another attempt is in vain
	// while neither the document nor the node changes.
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
// state in JSON, "" if it can't be read. The results are in h.last.
func (h *Handler) enforce(ctx context.Context) (current string) {
	hash, orders, err := ordersOf(h.wanted, h.cfg.Engine.Manager)
	if err == nil {
		current, err = h.show(ctx)
	}
	if h.see(err); err != nil {
		return ""
	}
	h.hash = hash
	h.only(orders)
	due := slices.DeleteFunc(orders, func(o order) bool { return !h.dueWith(o, current) })
	// A part may need what another one makes, so those that failed are tried once more after
	// another one has changed the node.
	for changed := true; changed && len(due) > 0; {
		current, changed = h.attempt(ctx, due, current)
		due = slices.DeleteFunc(due, func(o order) bool { return h.last[o.path].err == nil })
	}
	return current
}

// see keeps why the node can't be read, nil if it can.
func (h *Handler) see(err error) {
	next := outcome{err: err}
	if err != nil {
		if time.Now().Before(h.blind.again) {
			return
		}
		next.failures = h.blind.failures + 1
		next.err = lasting(h.blind.err, err)
		next.again = time.Now().Add(pauseAfter(next.failures))
	}
	h.blind = next
}

// only forgets the outcomes of parts that are not desired any longer.
func (h *Handler) only(orders []order) {
	last := map[string]outcome{}
	h.paths = nil
	for _, o := range orders {
		h.paths = append(h.paths, o.path)
		if before, ok := h.last[o.path]; ok {
			last[o.path] = before
		}
	}
	h.last = last
}

// dueWith reports whether an order has to be enforced while the current state is this one.
func (h *Handler) dueWith(o order, current string) bool {
	last, tried := h.last[o.path]
	switch {
	case !tried || last.hash != o.hash || last.foreign != o.foreign || !slices.Equal(last.reach, o.reach):
		return true
	case !last.again.IsZero() && !time.Now().Before(last.again):
		return true
	case last.err != nil && !last.refused:
		return false // The attempt itself has changed the node, and the pause goes on.
	default:
		return last.seen != current
	}
}

// attempt enforces orders one after the other. It returns the current state, and whether one of
// them changed the node for good.
func (h *Handler) attempt(ctx context.Context, orders []order, before string) (current string, changed bool) {
	current = before
	for _, o := range orders {
		touched, refused, err := h.lead(ctx, o)
		if !touched {
			h.conclude(o, current, refused, err)
			continue
		}
		// The network can have drifted since the engine verified it. So no state counts as
		// seen, and the pass that the change itself causes plans once more.
		h.conclude(o, "", refused, err)
		changed = changed || err == nil
		if now, err := h.show(ctx); err == nil { // The next pass reads it otherwise.
			current = now
		}
	}
	return current, changed
}

// lead leads the node to a part of the desired state. touched is true if the network of the
// node may not be what it was before.
func (h *Handler) lead(ctx context.Context, o order) (touched, refused bool, err error) {
	if o.document == nil || o.fault != nil {
		return false, o.fault != nil, o.fault
	}
	if _, err := h.cfg.Engine.Plan(ctx, o.document); err != nil {
		return false, ctx.Err() == nil, err
	}
	// With nothing to change, it commits the desired state for the next boot.
	result, err := h.cfg.Engine.Apply(
		ctx,
		o.document,
		transaction.Options{Timeout: h.cfg.Timeout, Reach: o.reach, Kept: o.kept},
	)
	if err != nil {
		return true, false, err
	}
	if len(result.Steps) > 0 {
		h.cfg.Log.Info("the node has the desired network state", "part", quote.Name(o.path), "steps", len(result.Steps))
	}
	return len(result.Steps) > 0, false, nil
}

func (h *Handler) conclude(o order, seen string, refused bool, err error) {
	next := outcome{hash: o.hash, foreign: o.foreign, reach: o.reach, err: err, refused: refused, seen: seen}
	if err != nil {
		last := h.last[o.path]
		next.failures, next.err = 1, lasting(last.err, err)
		if last.hash == o.hash {
			next.failures += last.failures
		}
		pause := pauseAfter(next.failures)
		if refused {
			pause = longestPause
		}
		next.again = time.Now().Add(pause)
	}
	h.last[o.path] = next
}

// lasting returns the error of an earlier try, if it has the same cause: it tells since when it is
// so, and a report of it says nothing new.
func lasting(last, err error) error {
	if last != nil && quote.SameCause(last.Error(), err.Error()) {
		return last
	}
	return err
}

// fault is why the node does not have the desired state. It is refused if all that is missing
// is so.
func (h *Handler) fault() (refused bool, err error) {
	if h.blind.err != nil {
		return false, h.blind.err
	}
	var errs []error
	refused = true
	for _, path := range h.paths {
		last := h.last[path]
		if last.err == nil {
			continue
		}
		refused, err = refused && last.refused, last.err
		if path != "" {
			err = fmt.Errorf("%s: %w", quote.Name(path), err)
		}
		errs = append(errs, err)
	}
	return refused && len(errs) > 0, errors.Join(errs...)
}

// show returns the current state in JSON, without lifetimes. Lifetimes change all the time, and
// the handler reports each changed state, and compares it with the desired state.
func (h *Handler) show(ctx context.Context) (string, error) { return Current(ctx, h.cfg.Engine) }

// shower is the part of an Engine that Current needs.
type shower interface {
	Show(ctx context.Context) (*document.State, error)
}

// Current returns, in JSON, the current state of a node that a Handler reports.
func Current(ctx context.Context, e shower) (string, error) {
	state, err := e.Show(ctx)
	if err != nil {
		return "", fmt.Errorf("read the network of the node: %w", err)
	}
	text, err := json.Marshal(state.WithoutLifetimes())
	return string(text), err
}
