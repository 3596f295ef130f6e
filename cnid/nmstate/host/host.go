// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host shows and changes the network of a host for package transaction: the network of
// the kernel and the file of the resolver, without the interfaces and addresses of others.
package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/automatic"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
)

// Errors that callers tell apart.
var (
	// ErrHidden: an interface does not belong to the host's own network.
	ErrHidden = errors.New("the interface does not belong to the host's own network")
	// ErrAddress: a document must not give the host an address.
	ErrAddress = errors.New("the address belongs to others")
	// ErrUplink: an interface can be configured, and neither stopped nor removed.
	ErrUplink = errors.New("it is the host's uplink, one end of a pair that can't be made again; it stays up")
)

// Host is the network of a host.
type Host struct {
	kernel   *kernel.Kernel
	resolver resolvconf.File
	others   Others
	hardware func() ([]string, error)
	// store has the automatic settings, nil without any.
	store *automatic.Store

	mu sync.Mutex
	// last names the objects that the last Show has hidden, and known the uplinks that it has
	// shown.
	last  hidden
	known []string
}

// Open returns the network of the calling thread's namespace, for the caller to close. It neither
// shows nor changes interfaces of others, such as devices of pods, and their routes.
func Open(resolver resolvconf.File, others func(document.Interface) bool) (*Host, error) {
	return OpenBeside(resolver, Others{Interface: others}, func() ([]string, error) { return nil, nil })
}

// OpenBeside is Open where others have addresses, too. hardware returns the interfaces that
// were taken for hardware before: one end of a pair that is an uplink stays one when it is
// the port of a bridge, and has nothing more of its own.
func OpenBeside(resolver resolvconf.File, others Others, hardware func() ([]string, error)) (*Host, error) {
	k, err := kernel.Open()
	if err != nil {
		return nil, err
	}
	return &Host{kernel: k, resolver: resolver, others: others, hardware: hardware}, nil
}

// Close closes it.
func (h *Host) Close() { h.kernel.Close() }

// Show returns the current state.
func (h *Host) Show(ctx context.Context) (*document.State, error) {
	state, err := h.kernel.Show(ctx)
	if err != nil {
		return nil, err
	}
	resolver, err := h.resolver.Read()
	if err != nil {
		return nil, err
	}
	state.DNS = &document.DNS{Running: &resolver, Config: &resolver}
	if err := h.showAutomatic(ctx, state); err != nil {
		return nil, err
	}
	_, err = h.hide(state)
	return state, err
}

// hide shows uplinks as hardware, removes the parts of others from a state, and returns the
// removed parts.
func (h *Host) hide(state *document.State) (hidden, error) {
	before, err := h.hardware()
	if err != nil {
		return hidden{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = h.others.showUplinks(state, append(before, h.known...))
	h.last = h.others.hide(state)
	h.last.uplinks = h.known
	return h.last, nil
}

// Do executes a step.
func (h *Host) Do(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case plan.SetResolver:
		if err := h.setResolver(s.Resolver); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		return nil
	case plan.SetAutomatic:
		return h.setAutomatic(ctx, s)
	case plan.Create:
		// The planner did not see an interface that is hidden, and the kernel would give
		// it the settings of a new one.
		if h.others.has(s.Interface) || h.taken(s.Interface.Name) {
			return fmt.Errorf("%s: %w; choose another name", step, ErrHidden)
		}
	case plan.Delete:
		if h.isUplink(s.Name) {
			return fmt.Errorf("%s: %w", step, ErrUplink)
		}
		if err := h.forget(s.Name); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	return h.kernel.Do(ctx, step)
}

func (h *Host) taken(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.interfaces[name]
}

func (h *Host) isUplink(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.known, name)
}

// Image returns what the kernel has, to the attribute, also of interfaces that Show hides.
func (h *Host) Image(ctx context.Context, a snapshot.Area) (*snapshot.Image, error) {
	return snapshot.Take(ctx, h.kernel, a)
}

// Above returns the interfaces of other network namespaces on top of the host's, by index.
func (h *Host) Above(ctx context.Context) (map[uint32][]string, error) { return h.kernel.Above(ctx) }

// Replay executes one request of a snapshot.
func (h *Host) Replay(ctx context.Context, r snapshot.Request) error { return h.kernel.Replay(ctx, r) }

// Resolver returns the file of the resolver as it is.
func (h *Host) Resolver() (resolvconf.Copy, error) { return h.resolver.Copy() }

// RestoreResolver makes that file what it was.
func (h *Host) RestoreResolver(c resolvconf.Copy) error { return h.resolver.Restore(c) }
