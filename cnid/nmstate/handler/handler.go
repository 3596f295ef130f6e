// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// Engine is the network of the node; package engine implements it.
type Engine interface {
	Show(ctx context.Context) (*document.State, error)
	// Plan fails for a document that can't be applied as things are. It changes nothing.
	Plan(ctx context.Context, desired *document.State) ([]plan.Step, error)
	Apply(ctx context.Context, desired *document.State, o transaction.Options) (*transaction.Result, error)
	// Unrestored returns the last change that was undone without restoring the whole state
	// before. It returns nil if every undo restored all, or if a later change succeeded.
	Unrestored() (*transaction.Unrestored, error)
	// Manager returns the program that manages an interface besides the engine, "" if none
	// does.
	Manager(name string) (string, error)
}

// API is the part of the API server that a Handler needs.
type API interface {
	Get(ctx context.Context, obj kube.Object) error
	Create(ctx context.Context, obj kube.Object) error
	Patch(ctx context.Context, obj kube.Object, kind types.PatchType, data []byte, subresource ...string) error
}

// Wanted holds the demands of the node's object: the desired state and its parts, and targets.
type Wanted struct {
	// UID is the UID of the object, "" without an object.
	UID types.UID
	// Generation is the generation of the object.
	Generation int64
	// Unmanaged is true for a node that is left alone.
	Unmanaged bool
	// Desired is the desired state, nil without one, and Invalid is why it can't be read.
	Desired map[string]any
	Invalid string
	// Reach are the targets that the node has to reach after a change, as people set them, and
	// PolicyReach has the targets of all policies. Each part has the targets of its own policies.
	Reach, PolicyReach []string
	// Parts are enforced each by itself; nil if everything is enforced together.
	Parts []nmstate.Part
	// NodeUID is the UID of the Node object, the owner of the object; "" if it is unknown.
	NodeUID types.UID
}

// Config has the parts that a Handler calls. All fields are required but Hints and Events.
type Config struct {
	// Node is the name of the node.
	Node   string
	API    API
	Engine Engine
	// Wanted returns what the node's object asks for. An error means that nobody knows.
	Wanted func(ctx context.Context) (Wanted, error)
	// Hints has an element when the network or the object may have changed.
	Hints <-chan struct{}
	// Poll is how often the handler looks without a hint.
	Poll time.Duration
	// Timeout is how long a change may take until it is undone.
	Timeout time.Duration
	Events  Events
	Log     *slog.Logger
}

// Events writes events about the network of the node.
type Events interface {
	// NotRestored tells of a change that was undone without the whole state before.
	NotRestored(message string)
}

// Handler keeps the NodeNetworkState of a node.
type Handler struct {
	cfg Config
	// wanted holds the last demands of the object. known reports that the handler has read them.
	wanted Wanted
	known  bool
	// hash is the hash of the desired state. last has the outcomes of its parts by their first
	// paths, and paths has these paths in the order of the parts.
	hash  string
	last  map[string]outcome
	paths []string
	// blind is the outcome of reading the node.
	blind outcome
	// reported is the last report of the status.
	reported reported
	// unrestored is the last change that a log line or an event has reported.
	unrestored transaction.Unrestored
}

// New returns a Handler, which has done nothing yet.
func New(cfg Config) *Handler { return &Handler{cfg: cfg} }

// Run makes passes until ctx ends.
func (h *Handler) Run(ctx context.Context) {
	logged := ""
	for ctx.Err() == nil {
		again, err := h.Pass(ctx)
		if ctx.Err() != nil {
			return
		}
		logged = h.tell(logged, err)
		wait := h.cfg.Poll
		if again > 0 {
			wait = min(wait, again)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-h.cfg.Hints:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// tell logs an error that differs from the last one.
func (h *Handler) tell(last string, err error) string {
	if err == nil {
		return ""
	}
	if err.Error() != last {
		h.cfg.Log.Warn("the node network state is not as it has to be; trying again", "error", err)
	}
	return err.Error()
}

// Pass compares the node with its object once, changes the node if it has to, and reports.
// The error is why the node does not have the desired state, or why the report failed. The
// next pass is due after the duration at the latest; 0 is never without a change. Passes
// must not run concurrently.
func (h *Handler) Pass(ctx context.Context) (again time.Duration, err error) {
	wanted, unknown := h.cfg.Wanted(ctx)
	switch {
	case unknown == nil:
		h.wanted, h.known = wanted, true
	case !h.known:
		return firstPause, unknown
	}
	if h.wanted.Unmanaged {
		h.hash, h.last, h.paths, h.blind = "", nil, nil, outcome{}
		err = h.report(ctx, report{uid: h.wanted.UID, generation: h.wanted.Generation, unmanaged: true})
		return h.due(), errors.Join(unknown, err)
	}
	current := h.enforce(ctx)
	err = h.report(ctx, h.reportOf(current))
	_, fault := h.fault()
	return h.due(), errors.Join(unknown, fault, err)
}

// due is the time until something is due that needs no change: an attempt after one that
// failed, or a report.
func (h *Handler) due() time.Duration {
	next := h.reported.due()
	sooner := func(at time.Time) {
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	sooner(h.blind.again)
	for _, last := range h.last {
		sooner(last.again)
	}
	if next.IsZero() {
		return 0
	}
	return max(time.Until(next), time.Millisecond)
}
