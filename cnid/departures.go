// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/alioth-net/alioth/cnid/attachment"
	"github.com/alioth-net/alioth/cnid/journal"
)

// probesEnd is how long after a DEL the kubelet has certainly told its probe
// workers of the pod to stop. What a worker does then takes one probe's timeout
// at most; see docs/design/030-late-probes.md.
const probesEnd = 3 * time.Second

// departures holds the addresses of probed pods for as long after their DEL as
// the kubelet may still probe them. What is held is in the journal's release
// queue, so the next process holds it too: anew, since it can't know for how
// long it was held already.
type departures struct {
	journal *journal.Journal

	mu   sync.Mutex
	next attachment.Releaser
	// ended is called when the time of an element is up.
	ended func()
	// over has the elements of the queue, by Seq, whose time is up.
	over map[uint64]bool
	// fewer is closed, and replaced, when an attachment has left, or its time
	// is up.
	fewer chan struct{}
}

func newDepartures(j *journal.Journal) *departures {
	return &departures{journal: j, ended: func() {}, over: map[uint64]bool{}, fewer: make(chan struct{})}
}

// begin holds what an earlier process left in the queue, and hands everything
// on to next from now on.
func (d *departures) begin(next attachment.Releaser) {
	d.mu.Lock()
	d.next = next
	d.mu.Unlock()
	for _, rec := range d.journal.Releases() {
		d.hold(rec)
	}
}

// Release implements attachment.Releaser.
func (d *departures) Release(rec journal.Record) {
	d.hold(rec)
	d.next.Release(rec)
	d.tell()
}

func (d *departures) hold(rec journal.Record) {
	if !rec.Probed {
		return
	}
	time.AfterFunc(rec.ProbeTimeout+probesEnd, func() {
		d.mu.Lock()
		d.over[rec.Seq] = true
		d.mu.Unlock()
		d.next.Release(rec) // which may take it off the queue now
		d.tell()
		d.ended()
	})
}

// tell wakes who waits, and forgets what is off the queue.
func (d *departures) tell() {
	queue := d.journal.Releases()
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.over, func(seq uint64, _ bool) bool {
		return !slices.ContainsFunc(queue, func(rec journal.Record) bool { return rec.Seq == seq })
	})
	close(d.fewer)
	d.fewer = make(chan struct{})
}

// holds reports whether the time of an element of the queue is not up yet.
func (d *departures) holds(rec journal.Record) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return rec.Probed && !d.over[rec.Seq]
}

// records returns the journal's records and what is held of its queue, and a
// channel that is closed when there may be fewer.
func (d *departures) records() ([]journal.Record, <-chan struct{}) {
	d.mu.Lock()
	fewer := d.fewer
	d.mu.Unlock()
	// In this order: an attachment goes from the one to the other.
	list := d.journal.Records()
	return slices.Concat(list, d.held()), fewer
}

// held are the elements of the queue that are held.
func (d *departures) held() []journal.Record {
	return slices.DeleteFunc(d.journal.Releases(), func(rec journal.Record) bool { return !d.holds(rec) })
}
