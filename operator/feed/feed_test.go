// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/core"
)

// heard is a subscriber's notification about a pod, and the content of the store then.
type heard struct{ old, now, stored string }

func listen(f *Feed) *[]heard {
	var all []heard
	f.Subscribe(func(change Change) {
		uid := func(row any) string {
			if pod, ok := row.(*store.Pod); ok {
				return pod.UID
			}
			return ""
		}
		h := heard{old: uid(change.Old), now: uid(change.New)}
		f.Store().View(func(tx store.ReadTx) {
			if pod := store.PodByName(tx, "a", "p"); pod != nil {
				h.stored = pod.UID
			}
		})
		all = append(all, h)
	})
	return &all
}

func newPod(uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: types.UID(uid), ResourceVersion: "1"}}
}

func TestSubscriber_Event_RowInStore(t *testing.T) {
	f := New(operatortest.New(t), logr.Discard())
	log := listen(f)
	h := f.handler(core.Pod.Kind, &batch{feed: f, kind: core.Pod.Kind})
	h.OnAdd(newPod("one"), false)
	h.OnUpdate(newPod("one"), newPod("two")) // deleted and created between two looks
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "a/p", Obj: newPod("two")})
	want := []heard{{now: "one", stored: "one"}, {old: "one"}, {now: "two", stored: "two"}, {old: "two"}}
	if len(*log) != len(want) {
		t.Fatalf("heard %+v, want %+v", *log, want)
	}
	for i, got := range *log {
		if got != want[i] {
			t.Errorf("change %d: %+v, want %+v", i, got, want[i])
		}
	}
}

func TestSubscriber_HostNetworkPod_NoEvent(t *testing.T) {
	f := New(operatortest.New(t), logr.Discard())
	log := listen(f)
	pod := newPod("host")
	pod.Spec.HostNetwork = true
	f.handler(core.Pod.Kind, &batch{feed: f, kind: core.Pod.Kind}).OnAdd(pod, false)
	if len(*log) > 0 {
		t.Errorf("heard %+v", *log)
	}
}

func TestSource_Starts_AllRequestedThenChanges(t *testing.T) {
	f := New(operatortest.New(t, operatortest.Pod("blue", "a", "before", "", "")), logr.Discard())
	f.Fill(t.Context())
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	source := NewSource(f,
		func(tx store.ReadTx) []Request { return []Request{Now("a", slices.Collect(store.AllPods(tx))[0].Name)} },
		On(func(_ store.ReadTx, old, now *store.Pod) []Request {
			return []Request{Now(Either(old, now).Namespace, Either(old, now).Name)}
		}),
		On(func(_ store.ReadTx, _, _ *store.VPC) []Request {
			t.Error("a mapper of VPCs was asked about a pod")
			return nil
		}))
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	if err := source.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.handler(core.Pod.Kind, &batch{feed: f, kind: core.Pod.Kind}).OnAdd(newPod("one"), false)
	for _, want := range []string{"before", "p"} {
		if got, _ := queue.Get(); got.Name != want {
			t.Errorf("asked for %s, want %s", got, want)
		}
	}
}
