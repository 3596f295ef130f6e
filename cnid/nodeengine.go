// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/host"
	"github.com/alioth-net/alioth/cnid/nmstate/managers"
	"github.com/alioth-net/alioth/cnid/nmstate/permit"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/reserved"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// GuardSubcommand is the subcommand of alioth-cnid that calls GuardNetwork.
const GuardSubcommand = "guard-network"

// engine is the configuration of what changes the node's network. uses are those of the
// network by attachments and others, nil in a process that undoes changes only.
func (c Config) engine(uses func() []permit.Use, log *slog.Logger) engine.Config {
	root, _ := c.hostFiles()
	return engine.Config{
		Dir: c.networkStateDir(), Root: string(root), Uses: uses,
		Others: host.Others{Interface: reserved.Is, Address: reserved.Addresses(c.Shadows)},
		Log:    slog.NewLogLogger(log.Handler(), slog.LevelInfo).Writer(),
	}
}

// GuardNetwork waits for the end of a change of the node's network, and undoes the change
// if the daemon ends or the change takes too long. It runs on the node, and not in the
// daemon's container.
func GuardNetwork(ctx context.Context, cfg Config, id string, log *slog.Logger) error {
	config := cfg.engine(nil, log)
	config.Root = "/"
	e, err := engine.Open(config)
	if err != nil {
		return err
	}
	defer e.Close()
	return e.Guard(ctx, id)
}

// networkStatesKept reports whether the node applies its committed state at each boot, or
// may do so: a container with processes of its own does not see the node's files.
func (c Config) networkStatesKept() bool {
	const first = 1
	return os.Getpid() == first || c.engine(nil, slog.New(slog.DiscardHandler)).Unit().Installed()
}

// guardArguments are those of alioth-cnid for GuardNetwork, but for the change.
func (c Config) guardArguments() []string {
	var shadows []string
	for _, prefix := range c.Shadows {
		shadows = append(shadows, prefix.String())
	}
	return []string{GuardSubcommand, "--state-dir=" + c.StateDir, "--shadow-cidrs=" + strings.Join(shadows, ",")}
}

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
func (n *network) Apply(ctx context.Context, desired *document.State, o transaction.Options) (*transaction.Result, error) {
	e, err := n.engine(ctx)
	if err != nil {
		return nil, err
	}
	return e.Apply(ctx, desired, o)
}

// Manager implements handler.Engine.
func (n *network) Manager(name string) (string, error) {
	return managers.Root(n.cfg.Root).Of(name)
}
