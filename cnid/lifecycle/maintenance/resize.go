// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"log/slog"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// ResizerConfig has the functions of a Resizer. All fields are required.
type ResizerConfig struct {
	// Attachments changes the MTU of an interface, as attachment.Manager does.
	Attachments interface {
		Resize(ctx context.Context, key journal.Key, mtu int) (bool, error)
	}
	Journal  journal.Reader
	Progress Progress
	Log      *slog.Logger
}

// Progress has what the passes of the node have reached.
type Progress interface {
	// PodMTU returns the network's MTU for pods in bytes, 0 while it is not known, and a
	// channel that is closed when it may have changed.
	PodMTU() (int, <-chan struct{})
	// Recheck requests a thorough pass: problems may be over.
	Recheck()
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
		mtu, changed := r.cfg.Progress.PodMTU()
		if mtu != 0 && r.resize(ctx, mtu) {
			r.cfg.Progress.Recheck()
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
	for _, rec := range r.cfg.Journal.Records() {
		mtu := ifdriver.PodMTU(carried, rec.Addrs)
		if rec.Phase != journal.PhaseDone || !rec.Carried() || rec.MTU == mtu {
			continue // the node's network carries nothing of it
		}
		done, err := r.cfg.Attachments.Resize(ctx, rec.Key, mtu)
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
