// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import "time"

// Limits of questions of a node, and half of them of a VPC: how many at once, and how many
// in any second.
const (
	runningAtMost = 16
	askedAtMost   = 50
	share         = 2
)

// window counts questions that wait for an answer, and questions of the last second.
type window struct {
	running, atOnce int
	// times has the times of the last questions, as a ring. next is the index of the oldest
	// one when the ring is full.
	times     []time.Duration
	perSecond int
	next      int
}

func newWindow(atOnce, perSecond int) *window { return &window{atOnce: atOnce, perSecond: perSecond} }

// free is when the next question may be asked; false: only after an answer.
func (w *window) free() (time.Duration, bool) {
	if w.running >= w.atOnce {
		return 0, false
	}
	if len(w.times) < w.perSecond {
		return 0, true
	}
	return w.times[w.next] + time.Second, true
}

func (w *window) may(now time.Duration) bool {
	at, ok := w.free()
	return ok && at <= now
}

func (w *window) ask(now time.Duration) {
	w.running++
	if len(w.times) < w.perSecond {
		w.times = append(w.times, now)
		return
	}
	w.times[w.next] = now
	w.next = (w.next + 1) % w.perSecond
}

// idle reports whether all questions are answered and older than a second.
func (w *window) idle(now time.Duration) bool {
	if w.running > 0 {
		return false
	}
	newest := len(w.times) - 1
	if len(w.times) == w.perSecond {
		newest = (w.next + w.perSecond - 1) % w.perSecond
	}
	return newest < 0 || w.times[newest]+time.Second <= now
}

// budget limits the questions of a node, and of each of its VPCs, by VNI.
type budget struct {
	node *window
	vpcs map[uint32]*window
}

func newBudget() budget {
	return budget{node: newWindow(runningAtMost, askedAtMost), vpcs: map[uint32]*window{}}
}

func (b *budget) mayVPC(vni uint32, now time.Duration) bool {
	w := b.vpcs[vni]
	return w == nil || w.may(now)
}

func (b *budget) ask(vni uint32, now time.Duration) {
	b.node.ask(now)
	if b.vpcs[vni] == nil {
		b.vpcs[vni] = newWindow(runningAtMost/share, askedAtMost/share)
	}
	b.vpcs[vni].ask(now)
}

func (b *budget) answered(vni uint32) {
	b.node.running--
	b.vpcs[vni].running--
}

// sweep forgets VPCs whose windows are idle.
func (b *budget) sweep(now time.Duration) {
	for vni, w := range b.vpcs {
		if w.idle(now) {
			delete(b.vpcs, vni)
		}
	}
}

// nextOf is when a question for one of these VPCs may be asked; false: only after an answer.
func (b *budget) nextOf(vnis []uint32) (time.Duration, bool) {
	node, ok := b.node.free()
	if !ok {
		return 0, false
	}
	var first time.Duration
	found := false
	for _, vni := range vnis {
		at := time.Duration(0)
		if w := b.vpcs[vni]; w != nil {
			if at, ok = w.free(); !ok {
				continue
			}
		}
		if !found || at < first {
			first, found = at, true
		}
	}
	return max(node, first), found
}
