// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/descriptor"
	"github.com/alioth-net/alioth/store/kinds/core"
)

// TestWhatExistsAtFirstIsInTheStoreOnceSynced: whole batches and the rest of one, but for an
// object that the store refuses.
func TestWhatExistsAtFirstIsInTheStoreOnceSynced(t *testing.T) {
	f := New(operatortest.New(t), logr.Discard())
	kind := *core.Pod.Kind
	put := kind.Put
	kind.Put = func(tx store.Tx, row any) error {
		if row.(*store.Pod).UID == "refused" {
			return errors.New("no")
		}
		return put(tx, row)
	}
	heard := map[string]int{}
	f.Subscribe(func(change Change) { heard[change.New.(*store.Pod).UID]++ })
	first := &batch{feed: f, kind: &kind}
	f.registrations, f.first = []toolscache.ResourceEventHandlerRegistration{synced{}}, []*batch{first}
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
	if !f.Synced() {
		t.Fatal("it is not synced")
	}
	f.Store().View(func(tx store.ReadTx) {
		for i := range count {
			id := fmt.Sprint(i)
			if want := i != batchSize+1; (core.Pod.Get(tx, descriptor.ID{UID: id}) != nil) != want || (heard[id] == 1) != want {
				t.Fatalf("pod %s: in the store and told once: want %t, told %d times", id, want, heard[id])
			}
		}
	})
}

// TestAChangeComesAfterWhatExistsAtFirst: a change of a pod that waits in a batch.
func TestAChangeComesAfterWhatExistsAtFirst(t *testing.T) {
	f := New(operatortest.New(t), logr.Discard())
	log := listen(f)
	h := f.handler(core.Pod.Kind, &batch{feed: f, kind: core.Pod.Kind})
	h.OnAdd(newPod("one"), true)
	h.OnDelete(newPod("one"))
	if want := (heard{old: "one"}); len(*log) != 2 || (*log)[1] != want {
		t.Errorf("heard %+v, want the pod and then %+v", *log, want)
	}
}
