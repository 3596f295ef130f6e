// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// Bounds of the events about the objects of one namespace: a number of events at once, and one more
// in each interval. Each event is a write of its own, and a tenant can make any number of objects
// that are refused. Above the bounds, each reason has a few events of its own, so that many events
// of one reason do not hide the others.
const (
	burst    = 256
	interval = time.Second / 8

	reasonBurst    = 8
	reasonInterval = time.Minute
	// reasonsLimit is the number of reasons of a namespace that may have events of their own at a
	// time.
	reasonsLimit = 64
)

// namespacesLimit is the number of namespaces above which namespaces with all their events left are
// forgotten.
const namespacesLimit = 1024

// NewBounded returns a writer of events that withholds events of a namespace above the bounds. It
// counts each withheld event. An event of the namespace replaces the first of them.
func NewBounded(to events.EventRecorder, clock clock.PassiveClock, withheld counter) events.EventRecorder {
	return &bounded{to: to, clock: clock, withheld: withheld, namespaces: map[string]*account{}}
}

// counter counts events.
type counter interface{ Inc() }

type bounded struct {
	to       events.EventRecorder
	clock    clock.PassiveClock
	withheld counter

	mu         sync.Mutex
	namespaces map[string]*account
}

// Eventf implements events.EventRecorder.
func (b *bounded) Eventf(regarding, related runtime.Object, level, reason, action, note string, args ...any) {
	namespace := ""
	if object, err := meta.Accessor(regarding); err == nil {
		namespace = object.GetNamespace()
	}
	passes, tell := true, false
	if namespace != "" { // others are objects of administrators
		passes, tell = b.take(namespace, reason)
	}
	if passes {
		b.to.Eventf(regarding, related, level, reason, action, note, args...)
		return
	}
	b.withheld.Inc()
	if tell {
		// An event of an object without a namespace is in the namespace default.
		about := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		b.to.Eventf(about, nil, corev1.EventTypeWarning, v1alpha1.EventsWithheldReason, "Announce", "%s", fmt.Sprintf(
			"the objects of namespace %s have caused %d events, so further ones are withheld for a while, but for the first %d of each reason: the conditions of the objects have all reasons",
			namespace,
			burst,
			reasonBurst,
		))
	}
}

// take takes an event of a namespace, and reports whether one was left. tell is true for the first
// withheld event.
func (b *bounded) take(namespace, reason string) (passes, tell bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, one := b.clock.Now(), b.namespaces[namespace]
	if one == nil {
		one = &account{}
		b.namespaces[namespace] = one
	}
	passes, tell = one.take(now, reason)
	if len(b.namespaces) > namespacesLimit {
		maps.DeleteFunc(b.namespaces, func(_ string, one *account) bool { return one.isFull(now) })
	}
	return passes, tell
}

// account has the events that a namespace may still cause. The zero value is full.
type account struct {
	all bucket
	// reasons has the buckets of the reasons that have used some of their own events.
	reasons map[string]bucket
	// announced: the namespace has an event about withheld events, since it was full.
	announced bool
}

// take takes an event that all reasons share, or else one of its reason.
func (a *account) take(now time.Time, reason string) (passes, tell bool) {
	if a.all.isFull(now) {
		a.announced = false
	}
	if a.all.take(now, burst, interval) || a.takeOf(now, reason) {
		return true, false
	}
	tell, a.announced = !a.announced, true
	return false, tell
}

// takeOf takes an event that a reason has for itself.
func (a *account) takeOf(now time.Time, reason string) bool {
	own, known := a.reasons[reason]
	if !known {
		maps.DeleteFunc(a.reasons, func(_ string, own bucket) bool { return own.isFull(now) })
		if len(a.reasons) == reasonsLimit {
			return false
		}
		if a.reasons == nil {
			a.reasons = map[string]bucket{}
		}
	}
	passes := own.take(now, reasonBurst, reasonInterval)
	a.reasons[reason] = own
	return passes
}

func (a *account) isFull(now time.Time) bool {
	for _, own := range a.reasons {
		if !own.isFull(now) {
			return false
		}
	}
	return a.all.isFull(now)
}

// bucket is a number of events. It is stored as the moment when all of them are available again.
// The zero value is full.
type bucket struct{ full time.Time }

func (b *bucket) isFull(now time.Time) bool { return !b.full.After(now) }

// take takes an event from a bucket and reports whether there was one. The bucket holds size
// events, and gets one more in each interval.
func (b *bucket) take(now time.Time, size int, interval time.Duration) bool {
	if b.isFull(now) {
		b.full = now
	}
	if b.full.Sub(now) > time.Duration(size-1)*interval {
		return false
	}
	b.full = b.full.Add(interval)
	return true
}
