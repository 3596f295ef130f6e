// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/alioth-net/alioth/cnid/nmstate/managers"
	"github.com/alioth-net/alioth/cnid/nmstate/permit"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
)

// permitHost is the permit.Host of an engine.
type permitHost struct {
	*Engine
	resolver resolvconf.File
}

// Client implements permit.Host.
func (h permitHost) Client(name string) (string, error) {
	return managers.Root(h.cfg.Root).Client(name, h.space.Fd())
}

// Served implements permit.Host.
func (h permitHost) Served() error {
	served, err := h.store.Served()
	if err == nil && !served {
		err = ErrNotServed
	}
	return err
}

// Resolver implements permit.Host.
func (h permitHost) Resolver() error { return h.resolver.Writable() }

// Kept implements permit.Host.
func (h permitHost) Kept() bool { return h.Unit().Installed() }

// Uses implements permit.Host.
func (h permitHost) Uses() []permit.Use {
	if h.cfg.Uses == nil {
		return nil
	}
	return h.cfg.Uses()
}
