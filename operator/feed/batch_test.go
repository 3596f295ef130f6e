// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/core"
)

// listed is the registration of a handler that has seen everything once it is true.
type listed struct {
	toolscache.ResourceEventHandlerRegistration
	atomic.Bool
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (l *listed) HasSynced() bool { return l.Load() }

// refusing refuses one pod.
type refusing struct{ descriptor.Rows }

// Put implements descriptor.Rows.
func (r refusing) Put(tx store.Tx, row any) error {
	if row.(*store.Pod).UID == "refused" {
		return errors.New("no")
	}
	return r.Rows.Put(tx, row)
}

// TestFeed_FirstObjects_StoredOnceSynced: whole batches and the rest of one, but for an object
// that the store refuses. No subscriber gets a call: it finds the objects in the store.
func TestFeed_FirstObjects_StoredOnceSynced(t *testing.T) {
	f := New(operatortest.New(t), logr.Discard())
	kind := *core.Pod.Kind
	kind.Rows = refusing{kind.Rows}
	f.Subscribe(func(change Change) { t.Errorf("told of %+v", change) })
	first, registration := &batch{feed: f, kind: &kind}, &listed{}
	f.inputs = []input{{registration, first}}
	h := f.handler(&kind, first)
	const count = 2*batchSize + 3
	for i := range count {
		pod := newPod(fmt.Sprint(i))
		pod.Name = fmt.Sprint(i)
		if i == batchSize+1 {
			pod.UID = "refused"
		}
		h.OnAdd(pod, true)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if f.Fill(ended); f.Synced() {
		t.Fatal("it is synced before everything was listed")
	}
	registration.Store(true)
	if f.Fill(t.Context()); !f.Synced() {
		t.Fatal("it is not synced")
	}
	f.Store().View(func(tx store.ReadTx) {
		for i := range count {
			if want := i != batchSize+1; (core.Pod.Get(tx, descriptor.ID{UID: fmt.Sprint(i)}) != nil) != want {
				t.Errorf("pod %d in the store: want %t", i, want)
			}
		}
	})
}

// TestFeed_ChangeOfWaitingObject_AfterFirstBatch: a change of a pod that waits in a batch.
func TestFeed_ChangeOfWaitingObject_AfterFirstBatch(t *testing.T) {
	f := New(operatortest.New(t), logr.Discard())
	log := listen(f)
	h := f.handler(core.Pod.Kind, &batch{feed: f, kind: core.Pod.Kind})
	h.OnAdd(newPod("one"), true)
	h.OnDelete(newPod("one"))
	if want := (heard{old: "one"}); len(*log) != 1 || (*log)[0] != want {
		t.Errorf("heard %+v, want %+v", *log, want)
	}
}
