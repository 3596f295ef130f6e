// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"log/slog"

	"github.com/alioth-net/alioth/cnid/interfaces/attach"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// ResizerConfig has the functions of a Resizer. All fields are required.
type ResizerConfig struct {
	// Resize has the meaning of attachment.Manager.Resize.
	Resize  func(ctx context.Context, key journal.Key, mtu int) (bool, error)
	Records func() []journal.Record
	// MTU returns the network's MTU for pods in bytes, 0 while it is not known, and a
	// channel that is closed when it may have changed.
	MTU func() (int, <-chan struct{})
	// Recheck requests a thorough pass: problems may be over.
	Recheck func()
	Log     *slog.Logger
}

// Resizer changes the MTU of running pods with the MTU of the node's network.
type Resizer struct {
	cfg ResizerConfig
	// logged has the last logged text of each attachment, by Seq.
	logged map[uint64]string
}

// NewResizer returns a Resizer.
func NewResizer(cfg ResizerConfig) *Resizer {
	return &Resizer{cfg: cfg, logged: map[uint64]string{}}
}

// Run resizes until ctx ends. A failure is retried after the next pass.
func (r *Resizer) Run(ctx context.Context) {
	for {
		mtu, changed := r.cfg.MTU()
		if mtu != 0 && r.resize(ctx, mtu) {
			r.cfg.Recheck()
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// resize reports whether it changed a pod's MTU.
func (r *Resizer) resize(ctx context.Context, carried int) bool {
	resized := false
	for _, rec := range r.cfg.Records() {
		mtu := attach.PodMTU(carried, rec.Addrs)
		if rec.Phase != journal.PhaseDone || !rec.Carried() || rec.MTU == mtu {
			continue // the node's network carries nothing of it
		}
		done, err := r.cfg.Resize(ctx, rec.Key, mtu)
		if done {
			resized = true
			r.cfg.Log.Info("a pod follows the MTU of the node's network", "pod", rec.Pod.String(), "from", rec.MTU, "to", mtu)
		}
		switch {
		case err == nil:
			delete(r.logged, rec.Seq)
		case ctx.Err() == nil && r.logged[rec.Seq] != err.Error():
			r.logged[rec.Seq] = err.Error()
			r.cfg.Log.Warn("a pod can't follow the MTU of the node's network; trying again", "error", err)
		}
	}
	return resized
}
