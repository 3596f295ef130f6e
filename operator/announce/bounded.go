// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// Bounds of the events about the objects of one namespace: so many at once, and one more in
// each interval. Each event is a write of its own, and a tenant can make any number of
// objects that are refused.
const (
	burst    = 256
	interval = time.Second / 8
)

// bucketsLimit is from how many namespaces on those are forgotten that have all their events
// left.
const bucketsLimit = 1024

// NewBounded returns a writer of events that withholds those of a namespace above the bounds.
// withheld is called for each. The first of them is replaced by an event of the namespace.
func NewBounded(to events.EventRecorder, now func() time.Time, withheld func()) events.EventRecorder {
	return &bounded{to: to, now: now, withheld: withheld, buckets: map[string]bucket{}}
}

type bounded struct {
	to       events.EventRecorder
	now      func() time.Time
	withheld func()

	mu      sync.Mutex
	buckets map[string]bucket
}

// bucket is the events that a namespace may still have, as the moment at which all of them
// are there again. The zero value is full.
type bucket struct {
	full time.Time
	// told: the namespace has been told of events that are withheld, since it was full.
	told bool
}

// Eventf implements events.EventRecorder.
func (b *bounded) Eventf(regarding, related runtime.Object, level, reason, action, note string, args ...any) {
	namespace := ""
	if object, err := meta.Accessor(regarding); err == nil {
		namespace = object.GetNamespace()
	}
	passes, tell := true, false
	if namespace != "" { // others are objects of administrators
		passes, tell = b.take(namespace)
	}
	if passes {
		b.to.Eventf(regarding, related, level, reason, action, note, args...)
		return
	}
	b.withheld()
	if tell {
		// An event of an object without a namespace is in the namespace default.
		about := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		b.to.Eventf(about, nil, corev1.EventTypeWarning, v1alpha1.EventsWithheldReason, "Announce", "%s", fmt.Sprintf(
			"the objects of namespace %s have caused %d events, so further ones are withheld for a while: the conditions of the objects have all reasons", namespace, burst))
	}
}

// take takes an event from the bucket of a namespace, and reports whether there was one. tell
// is true for the first one that there was not.
func (b *bounded) take(namespace string) (passes, tell bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, one := b.now(), b.buckets[namespace]
	if !one.full.After(now) {
		one = bucket{full: now}
	}
	if one.full.Sub(now) > (burst-1)*interval {
		tell, one.told = !one.told, true
	} else {
		passes, one.full = true, one.full.Add(interval)
	}
	b.buckets[namespace] = one
	if len(b.buckets) > bucketsLimit {
		maps.DeleteFunc(b.buckets, func(_ string, one bucket) bool { return !one.full.After(now) })
	}
	return passes, tell
}
