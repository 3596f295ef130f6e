// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host is what package transaction changes: the network of a host, which is the
// kernel's and the resolver's, without what belongs to others.
package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
)

// ErrHidden is of a step about an interface that is no part of the host's own network.
var ErrHidden = errors.New("the interface does not belong to the host's own network")

// Host is the network of a host.
type Host struct {
	kernel   *kernel.Kernel
	resolver resolvconf.File
	hidden   func(document.Interface) bool

	mu sync.Mutex
	// taken are the names of interfaces that the last Show has hidden.
	taken map[string]bool
}

// Open returns the network of the calling thread's namespace, for the caller to close.
// Interfaces that are hidden, such as those of pods, are neither shown nor changed, nor
// are their routes.
func Open(resolver resolvconf.File, hidden func(document.Interface) bool) (*Host, error) {
	k, err := kernel.Open()
	if err != nil {
		return nil, err
	}
	return &Host{kernel: k, resolver: resolver, hidden: hidden}, nil
}

// Close closes it.
func (h *Host) Close() { h.kernel.Close() }

// Show returns what is.
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
	h.hide(state)
	return state, nil
}

// hide takes out of a state what is hidden.
func (h *Host) hide(state *document.State) {
	names := map[string]bool{}
	state.Interfaces = slices.DeleteFunc(state.Interfaces, func(i document.Interface) bool {
		names[i.Name] = h.hidden(i)
		return names[i.Name]
	})
	h.mu.Lock()
	h.taken = names
	h.mu.Unlock()
	if state.Routes == nil {
		return
	}
	ofHidden := func(r document.Route) bool { return names[r.Interface] }
	state.Routes.Running = slices.DeleteFunc(state.Routes.Running, ofHidden)
	state.Routes.Config = slices.DeleteFunc(state.Routes.Config, ofHidden)
}

// Do executes a step.
func (h *Host) Do(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case plan.SetResolver:
		if err := h.resolver.Write(s.Resolver); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		return nil
	case plan.Create:
		// The planner did not see an interface that is hidden, and the kernel would give
		// it the settings of a new one.
		if h.hidden(s.Interface) || h.isTaken(s.Interface.Name) {
			return fmt.Errorf("%s: %w; choose another name", step, ErrHidden)
		}
	}
	return h.kernel.Do(ctx, step)
}

func (h *Host) isTaken(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.taken[name]
}
