// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"log/slog"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/report"
)

// mender makes pods' interfaces anew that somebody deleted, beside the passes
// of the syncer, for which it waits. It hands the rest of what they found to
// the report.
type mender struct {
	reporting
	attachments interface {
		Restore(ctx context.Context, key journal.Key) (bool, error)
	}
	metrics *syncMetrics
	log     *slog.Logger
	// todo has at most one element: all that the last pass missed.
	todo chan []journal.Record
	// lost are the attachments of which it was said that they are lost, by Seq.
	lost map[uint64]bool
}

func newMender(attachments interface {
	Restore(ctx context.Context, key journal.Key) (bool, error)
}, r reporting, metrics *syncMetrics, log *slog.Logger,
) *mender {
	return &mender{reporting: r, attachments: attachments, metrics: metrics, log: log, todo: make(chan []journal.Record, 1), lost: map[uint64]bool{}}
}

// missing implements observer. The next pass misses the same again.
func (m *mender) missing(list []journal.Record) {
	select {
	case m.todo <- list:
	default:
	}
}

// run mends until ctx ends.
func (m *mender) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case list := <-m.todo:
			for _, rec := range list {
				m.mend(ctx, rec)
			}
		}
	}
}

func (m *mender) mend(ctx context.Context, rec journal.Record) {
	robbed, err := m.attachments.Restore(ctx, rec.Key)
	switch {
	case ctx.Err() != nil || !robbed && err == nil:
	case err == nil:
		delete(m.lost, rec.Seq)
		m.metrics.repairs.WithLabelValues(report.RepairInterface).Inc()
		m.Restored(rec.Pod, nil)
	case !m.lost[rec.Seq]: // the next passes find it again
		m.lost[rec.Seq] = true
		m.log.Warn("can't make a pod's interface anew; delete the pod", "pod", rec.Pod.String(), "containerID", rec.ContainerID, "error", err)
		m.Restored(rec.Pod, err)
	}
}
