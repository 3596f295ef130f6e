// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
)

// ProbesEnd is the time after a DEL until the kubelet has certainly stopped its probe workers of
// the pod. A running probe then takes its timeout at most; see docs/design/030-late-probes.md.
const ProbesEnd = 3 * time.Second

// Held are the attachments whose addresses stay reserved after their DEL, as long as the
// kubelet may still probe them. They are in the journal's release queue, so the next
// process reserves them too, for the full time, because it does not have the time of the
// DEL.
type Held struct {
	journal *journal.Journal

	mu sync.Mutex
	// over has the elements of the queue with an expired time, by Seq.
	over map[uint64]bool

	// fewer is sent when an attachment has left, or its time is up.
	fewer broadcast.Signal
}

// NewHeld returns the attachments of a journal's queue.
func NewHeld(j *journal.Journal) *Held {
	return &Held{journal: j, over: map[uint64]bool{}}
}

// end notes that the time of an element is up.
func (h *Held) end(rec journal.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over[rec.Seq] = true
}

// notify wakes waiting goroutines, and removes elements that have left the queue.
func (h *Held) notify() {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.over, func(seq uint64, _ bool) bool { return !h.journal.Queued(seq) })
	h.fewer.Send()
}

// Holds reports whether the time of an element of the queue is not up yet.
func (h *Held) Holds(rec journal.Record) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return rec.Probed && !h.over[rec.Seq]
}

// Probed returns all attachments that the kubelet may probe: the journal's records and
// the reserved elements of its queue. The channel is closed when there may be fewer.
func (h *Held) Probed() ([]journal.Record, <-chan struct{}) {
	fewer := h.fewer.Next()
	// In this order, because an attachment moves from the records to the queue.
	list := h.journal.Records()
	return slices.Concat(list, h.Removed()), fewer
}

// Removed returns the reserved elements of the queue.
func (h *Held) Removed() []journal.Record {
	return slices.DeleteFunc(h.journal.Releases(), func(rec journal.Record) bool { return !h.Holds(rec) })
}

// Delayed forwards releases twice: at once, and when their time is up.
type Delayed struct {
	held *Held
	next attachment.Releaser
	// passes is asked for a pass when the time of an element is up.
	passes Passes
}

// Passes are the passes of the node.
type Passes interface{ Ask() uint64 }

// NewDelayed returns a Delayed that also covers the queue of an earlier process.
func NewDelayed(held *Held, next attachment.Releaser, passes Passes) *Delayed {
	d := &Delayed{held: held, next: next, passes: passes}
	for _, rec := range held.journal.Releases() {
		d.hold(rec)
	}
	return d
}

// Release implements attachment.Releaser.
func (d *Delayed) Release(rec journal.Record) {
	d.hold(rec)
	d.next.Release(rec)
	d.held.notify()
}

func (d *Delayed) hold(rec journal.Record) {
	if !rec.Probed {
		return
	}
	time.AfterFunc(rec.ProbeTimeout+ProbesEnd, func() {
		d.held.end(rec)
		d.next.Release(rec) // which may now remove it from the queue
		d.held.notify()
		d.passes.Ask()
	})
}
