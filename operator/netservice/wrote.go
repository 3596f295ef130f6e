// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netservice

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// wrote remembers the Endpoints that were written in this term, so that a Service whose
// endpoints stay costs no request. It needs no persistence: after a restart each object
// is read once.
type wrote struct {
	mu   sync.Mutex
	last map[types.NamespacedName]written
}

// written is the last object for the Service of a UID, nil for none.
type written struct {
	uid    string
	object *endpoints
}

func (w *wrote) has(service types.NamespacedName, uid string, wanted *endpoints) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, known := w.last[service]
	return known && last.uid == uid && (last.object == nil) == (wanted == nil) &&
		equality.Semantic.DeepEqual(last.object, wanted)
}

func (w *wrote) set(service types.NamespacedName, uid string, wanted *endpoints) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[types.NamespacedName]written{}
	}
	w.last[service] = written{uid: uid, object: wanted}
}

// forget drops a Service, and reports whether there may be an object of it.
func (w *wrote) forget(service types.NamespacedName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, known := w.last[service]
	delete(w.last, service)
	return known && last.object != nil
}
