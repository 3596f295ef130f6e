// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/automatic"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// errNoStore reports that the host has no place for automatic settings.
var errNoStore = errors.New("nobody keeps which DHCP clients run on this host")

// Keep lets the host keep automatic settings in a store. Without a store the host does not use
// DHCP.
func (h *Host) Keep(store *automatic.Store) { h.store = store }

// showAutomatic adds the automatic settings to a state of the kernel.
func (h *Host) showAutomatic(ctx context.Context, state *document.State) error {
	if h.store == nil {
		return nil
	}
	wanted, err := h.store.Wanted()
	if err != nil {
		return err
	}
	wanted.Show(state, func(name string) int { return h.Index(ctx, name) })
	return nil
}

// Index returns the kernel's number of an interface, and 0 for an unknown name.
func (h *Host) Index(ctx context.Context, name string) int {
	index, err := h.kernel.Index(ctx, name)
	if err != nil {
		return 0
	}
	return int(index)
}

// NameOf returns the name of the interface that has a name or an alternative name, and the name
// itself without such an interface.
func (h *Host) NameOf(ctx context.Context, name string) (string, error) {
	return h.kernel.NameOf(ctx, name)
}

// setAutomatic notes what shall be automatic, and does the kernel's part. The clients are told
// first that they end: what the kernel loses then, none of them gives it again.
func (h *Host) setAutomatic(ctx context.Context, step plan.SetAutomatic) error {
	if step.IP.IsAutomatic() {
		if err := h.kernel.Do(ctx, step); err != nil {
			return err
		}
		return h.note(ctx, step)
	}
	if err := h.note(ctx, step); err != nil {
		return err
	}
	return h.kernel.Do(ctx, step)
}

func (h *Host) note(ctx context.Context, step plan.SetAutomatic) error {
	if h.store == nil {
		if step.IP.DHCP != nil && *step.IP.DHCP {
			return fmt.Errorf("%s: %w", step, errNoStore)
		}
		return nil
	}
	return h.store.Change(func(w *automatic.Wanted) error {
		index := h.Index(ctx, step.Name)
		if index == 0 {
			return fmt.Errorf("%s: %s: no such interface", step, step.Name)
		}
		w.Set(step, index)
		return nil
	})
}

// forget notes that an interface is gone.
func (h *Host) forget(name string) error {
	if h.store == nil {
		return nil
	}
	return h.store.Change(func(w *automatic.Wanted) error {
		w.Remove(name)
		return nil
	})
}

// setResolver replaces the static part of the resolver's configuration.
func (h *Host) setResolver(r document.Resolver) error {
	if h.store == nil {
		return h.resolver.Write(r)
	}
	return h.store.Change(func(w *automatic.Wanted) error {
		if w.Static == nil {
			return h.resolver.Write(r)
		}
		known, err := h.store.Known()
		if err != nil {
			return err
		}
		w.Static, w.File, w.Former = &r, nil, false
		return h.resolver.Write(automatic.Resolver(r, known))
	})
}

// Automatic returns the automatic settings, nil if nobody keeps any.
func (h *Host) Automatic() (*automatic.Wanted, error) {
	if h.store == nil {
		return nil, nil
	}
	return h.store.Wanted()
}

// RestoreAutomatic makes the automatic settings what they were.
func (h *Host) RestoreAutomatic(before *automatic.Wanted) error {
	if h.store == nil || before == nil {
		return nil
	}
	return h.store.Change(func(w *automatic.Wanted) error {
		*w = *before
		return nil
	})
}

// Learn gives a family of an interface what a lease has.
func (h *Host) Learn(ctx context.Context, l kernel.Learned) error { return h.kernel.Learn(ctx, l) }

// Solicit asks the routers of an interface to advertise themselves.
func (h *Host) Solicit(ctx context.Context, name string) error { return h.kernel.Solicit(ctx, name) }

// ReadResolver returns the configuration of the resolver.
func (h *Host) ReadResolver() (document.Resolver, error) { return h.resolver.Read() }

// WriteResolver replaces it.
func (h *Host) WriteResolver(r document.Resolver) error { return h.resolver.Write(r) }
