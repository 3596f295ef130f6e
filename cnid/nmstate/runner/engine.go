// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/managers"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// network is the engine of the node. It is opened when it is needed, and again after a
// failure: a daemon serves pods without it, too.
type network struct {
	cfg engine.Config

	mu   sync.Mutex
	open *engine.Engine
}

// engine returns the engine, which has undone what a process that has ended has begun.
func (n *network) engine(ctx context.Context) (*engine.Engine, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open != nil {
		return n.open, nil
	}
	e, err := engine.Open(n.cfg)
	if err != nil {
		return nil, err
	}
	if err := e.Recover(ctx); err != nil && !errors.Is(err, transaction.ErrBusy) {
		e.Close()
		return nil, fmt.Errorf("undo the change of a process that has ended: %w", err)
	}
	n.open = e
	return e, nil
}

// opened returns the engine, nil while it is not open.
func (n *network) opened() *engine.Engine {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open
}

func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open != nil {
		n.open.Close()
	}
}

// Show implements handler.Engine.
func (n *network) Show(ctx context.Context) (*document.State, error) {
	e, err := n.engine(ctx)
	if err != nil {
		return nil, err
	}
	return e.Show(ctx)
}

// Plan implements handler.Engine.
func (n *network) Plan(ctx context.Context, desired *document.State) ([]plan.Step, error) {
	e, err := n.engine(ctx)
	if err != nil {
		return nil, err
	}
	return e.Plan(ctx, desired)
}

// Apply implements handler.Engine.
func (n *network) Apply(
	ctx context.Context,
	desired *document.State,
	o transaction.Options,
) (*transaction.Result, error) {
	e, err := n.engine(ctx)
	if err != nil {
		return nil, err
	}
	return e.Apply(ctx, desired, o)
}

// Unrestored implements handler.Engine.
func (n *network) Unrestored() (*transaction.Unrestored, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open == nil {
		return nil, nil // why it can't be opened is told by Show
	}
	return n.open.Unrestored()
}

// Manager implements handler.Engine.
func (n *network) Manager(name string) (string, error) {
	return managers.Root(n.cfg.Root).Of(name)
}

// serveDHCP runs the DHCP clients of the node until ctx ends.
func (n *network) serveDHCP(ctx context.Context) error {
	e, err := n.engine(ctx)
	if err != nil {
		return err
	}
	return e.ServeDHCP(ctx, nil)
}
