// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// RestorerConfig has the functions of a Restorer. All fields are required.
type RestorerConfig struct {
	// Attachments restores an interface, as attachment.Manager does.
	Attachments interface {
		Restore(ctx context.Context, key journal.Key) (bool, error)
	}
	Journal  journal.Reader
	Reporter interface {
		// Restored is called for a pod whose interface was restored or, with a cause, could
		// not be.
		Restored(pod journal.Pod, cause error)
	}
	Metrics interface {
		// Repaired counts a repair of a kind.
		Repaired(kind string)
	}
	// Every is the interval at which interfaces without an end on the node are looked for.
	// Neither a pass nor a message of the kernel reports that one is missing. Look shortens it.
	Every time.Duration
	Log   *slog.Logger
}

// Restorer restores pods' interfaces that another program deleted. It restores the interfaces
// that a pass misses. At intervals and on request it restores the interfaces that no pass looks
// for. It waits for passes, and so it works beside them.
type Restorer struct {
	cfg RestorerConfig
	// todo has at most one element: all that the last pass missed.
	todo chan []journal.Record
	// look has at most one element.
	look chan struct{}
	// failed are the attachments with a notified failure of the restoration, by Seq.
	failed map[uint64]bool
}

// NewRestorer returns a Restorer that has restored nothing.
func NewRestorer(cfg RestorerConfig) *Restorer {
	return &Restorer{
		cfg:    cfg,
		todo:   make(chan []journal.Record, 1),
		look:   make(chan struct{}, 1),
		failed: map[uint64]bool{},
	}
}

// Missing requests to restore attachments whose device is gone. It does not block: an attachment
// that has to wait is missing in the next pass as well.
func (r *Restorer) Missing(list []journal.Record) {
	select {
	case r.todo <- list:
	default:
	}
}

// Look requests to look for interfaces without an end on the node. It does not block.
func (r *Restorer) Look() {
	select {
	case r.look <- struct{}{}:
	default:
	}
}

// Run restores until ctx ends.
func (r *Restorer) Run(ctx context.Context) {
	ticker := time.NewTicker(r.cfg.Every)
	defer ticker.Stop()
	for {
		var list []journal.Record
		select {
		case <-ctx.Done():
			return
		case list = <-r.todo:
		case <-ticker.C:
			list = hostless(r.cfg.Journal.Records())
		case <-r.look:
			list = hostless(r.cfg.Journal.Records())
		}
		for _, rec := range list {
			r.restore(ctx, rec)
		}
	}
}

// hostless returns the finished attachments that have no end on the node.
func hostless(records []journal.Record) []journal.Record {
	return slices.DeleteFunc(slices.Clone(records), func(rec journal.Record) bool {
		return rec.HostIfName != "" || rec.Phase != journal.PhaseDone
	})
}

func (r *Restorer) restore(ctx context.Context, rec journal.Record) {
	deleted, err := r.cfg.Attachments.Restore(ctx, rec.Key)
	switch {
	case ctx.Err() != nil || !deleted && err == nil:
	case err == nil:
		delete(r.failed, rec.Seq)
		r.cfg.Metrics.Repaired(finding.RepairInterface)
		r.cfg.Reporter.Restored(rec.Pod, nil)
	case !r.failed[rec.Seq]: // the next passes find it again
		r.failed[rec.Seq] = true
		r.cfg.Log.Warn(
			"can't make a pod's interface anew; delete the pod",
			"pod",
			rec.Pod.String(),
			"containerID",
			rec.ContainerID,
			"error",
			err,
		)
		r.cfg.Reporter.Restored(rec.Pod, err)
	}
}
