// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"log/slog"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/plan"
)

// resizer lets running pods follow the MTU of the node's network, beside the
// passes of the syncer.
type resizer struct {
	attachments interface {
		Resize(ctx context.Context, key journal.Key, mtu int) (bool, error)
	}
	journal *journal.Journal
	// mtu that the network carries, and a channel that is closed when it may
	// have changed.
	mtu func() (int, <-chan struct{})
	// recheck has what people are told brought up to date.
	recheck func()
	log     *slog.Logger
	// told is what was last logged about an attachment, by Seq.
	told map[uint64]string
}

// run resizes until ctx ends. What fails is tried again after the next pass.
func (r *resizer) run(ctx context.Context) {
	for {
		mtu, changed := r.mtu()
		if mtu != 0 && r.resize(ctx, mtu) {
			r.recheck()
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// resize returns whether a pod got another MTU.
func (r *resizer) resize(ctx context.Context, carried int) bool {
	resized := false
	for _, rec := range r.journal.Records() {
		mtu := plan.PodMTU(carried, rec.Addrs)
		if rec.Phase != journal.PhaseDone || !rec.InVPC() || rec.MTU == mtu {
			continue // outside of every VPC the node's network carries nothing of it
		}
		done, err := r.attachments.Resize(ctx, rec.Key, mtu)
		if done {
			resized = true
			r.log.Info("a pod follows the MTU of the node's network", "pod", rec.Pod.String(), "from", rec.MTU, "to", mtu)
		}
		switch {
		case err == nil:
			delete(r.told, rec.Seq)
		case ctx.Err() == nil && r.told[rec.Seq] != err.Error():
			r.told[rec.Seq] = err.Error()
			r.log.Warn("a pod can't follow the MTU of the node's network; trying again", "error", err)
		}
	}
	return resized
}
