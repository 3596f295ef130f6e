// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/cnid/nmstate/policy/enact"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// Handler makes the enactments and the desired states of nodes. Its methods may be called
// from any goroutine, for one node from one at a time.
type Handler struct {
	cfg Config
	api *requests

	mu sync.Mutex
	// lastWritten has the owners that were written last to the status of a state, by node. It saves
	// reading the state, whose row does not have it.
	lastWritten map[string]written
}

// written has the owners in the status of one state object.
type written struct {
	uid    string
	owners enact.Owners
}

// NewHandler returns a Handler.
func NewHandler(cfg Config) *Handler {
	return &Handler{cfg: cfg, api: requestsOf(cfg.API), lastWritten: map[string]written{}}
}

// Pass brings one node's enactments and desired state up to date with the store. Again is
// when time alone changes the result, 0 for never; a change of the node's rows, of its
// labels or of its taints needs another pass in any case. A node that does not exist needs
// nothing. An error needs another pass later.
func (h *Handler) Pass(ctx context.Context, node string) (again time.Duration, err error) {
	var r rows
	h.cfg.Store.View(func(tx store.ReadTx) { r = readRows(tx, node) })
	again, err = h.pass(ctx, node, r)
	if isStale(err) {
		h.tellStale(node, err)
		return retryAfter, nil
	}
	return again, err
}

func (h *Handler) tellStale(node string, cause error) {
	h.cfg.Log.Debug("a node's policies are tried again with newer rows", "node", node, "cause", cause)
}

func (h *Handler) pass(ctx context.Context, name string, r rows) (again time.Duration, err error) {
	node, err := h.cfg.Node(ctx, name)
	if apierrors.IsNotFound(err) {
		h.forget(name)
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read node %s: %w", name, err)
	}
	if err := h.confirmGone(ctx, r.orphans()); err != nil {
		return 0, err
	}
	now := h.cfg.Clock.Now()
	r = h.fresh(ctx, name, r, now)
	changes, unwritten, err := h.enactments(ctx, func(stuck map[nmstate.Reference]bool) enact.Changes {
		return enact.Node(r.situation(node, stuck, now))
	})
	if err != nil {
		return 0, err
	}
	if err := errors.Join(unwritten, h.write(ctx, r.state, changes)); err != nil {
		return 0, err
	}
	return until(changes.Again, now), nil
}

// fresh returns the rows of a node. If a policy is about to change the node, fresh reads the
// node's state from the kernel, so that the enactment keeps the state before the change. If the
// kernel can't be read, the reported state counts.
func (h *Handler) fresh(ctx context.Context, node string, r rows, now time.Time) rows {
	if h.cfg.Current == nil || r.state == nil || r.state.Current == nil || !r.begins(node, now) {
		return r
	}
	current, err := h.cfg.Current(ctx)
	if err != nil {
		h.cfg.Log.Debug("a policy begins with the reported state of the node", "node", node, "cause", err)
		return r
	}
	state := *r.state
	state.Current = current
	r.state = &state
	return r
}

// enactments writes the enactments that decide returns. A failed write does not prevent the
// others: decide gets the policy of that enactment, and makes the changes without it. unwritten
// has the errors of such writes. err means that the changes rely on enactments that have not been
// written.
func (h *Handler) enactments(
	ctx context.Context,
	decide func(stuck map[nmstate.Reference]bool) enact.Changes,
) (c enact.Changes, unwritten, err error) {
	stuck := map[nmstate.Reference]bool{}
	for {
		c = decide(stuck)
		failed, err := h.putAll(ctx, c.Put)
		switch {
		case err == nil:
			return c, unwritten, nil
		case len(failed) < len(c.Put) || stuck[failed[0]]: // The next pass has newer rows.
			return c, nil, errors.Join(unwritten, err)
		}
		unwritten = errors.Join(unwritten, err)
		for _, ref := range failed {
			stuck[ref] = true
		}
	}
}

// putAll writes enactments, and returns the policies of the enactments that can't be written.
// After a stale row, or without an answer, it returns an error without policies.
func (h *Handler) putAll(ctx context.Context, list []nmstate.Enactment) (failed []nmstate.Reference, err error) {
	var all several
	for i := range list {
		err := h.putEnactment(ctx, &list[i])
		if err == nil {
			continue
		}
		err = fmt.Errorf("write the enactment %s: %w", list[i].Name, err)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, err // Others would wait as long.
		}
		all.add(err)
		failed = append(failed, list[i].Policy)
	}
	if all.stale != nil {
		failed = nil
	}
	return failed, all.err()
}

// confirmGone fails if the API server has the policy of an enactment. Enactments and policies
// come from several watches: if the watch of policies is late, the daemon would undo a policy
// that exists.
func (h *Handler) confirmGone(ctx context.Context, orphans []*nmstate.Enactment) error {
	for _, e := range orphans {
		object := newPolicy(e.Policy)
		if object == nil {
			continue
		}
		err := h.api.Get(ctx, object)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("read the policy %s: %w", e.Policy, err)
		case object.GetUID() == types.UID(e.PolicyUID):
			return stale("policy", e.Policy.String())
		}
	}
	return nil
}

// write writes what comes after the enactments. The end of an enactment relies on the desired
// state without it.
func (h *Handler) write(ctx context.Context, state *nmstate.State, c enact.Changes) error {
	if state != nil {
		if err := h.putState(ctx, state, c); err != nil {
			return fmt.Errorf("write the network state of node %s: %w", state.Name, err)
		}
	}
	var failed several
	for _, e := range c.Delete {
		if err := h.api.Delete(ctx, newEnactment(e.Name), types.UID(e.UID)); err != nil && !apierrors.IsNotFound(err) {
			failed.add(fmt.Errorf("delete the enactment %s: %w", e.Name, err))
		}
	}
	return failed.err()
}

func (h *Handler) putState(ctx context.Context, state *nmstate.State, c enact.Changes) error {
	if c.Desired != nil {
		if err := h.putDesired(ctx, state.Name, c.Desired); err != nil {
			return err
		}
	}
	next := written{uid: state.UID, owners: c.Owners}
	if reflect.DeepEqual(h.writtenTo(state.Name), next) {
		return nil
	}
	if err := h.putOwners(ctx, state, c.Owners); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastWritten[state.Name] = next
	return nil
}

func (h *Handler) forget(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.lastWritten, node)
}

func (h *Handler) writtenTo(node string) written {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastWritten[node]
}
