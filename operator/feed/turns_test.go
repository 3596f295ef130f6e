// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

// crowded returns a source of Services with a queue of controller-runtime. The namespaces x and y
// are of one tenant, and z is of another one.
func crowded(t *testing.T, turns bool) (*Source, priorityqueue.PriorityQueue[reconcile.Request], *Feed) {
	f := New(operatortest.New(t,
		&store.Namespace{Meta: operatortest.Meta("x", 0), Name: "x", Tenant: "crowd"},
		&store.Namespace{Meta: operatortest.Meta("y", 0), Name: "y", Tenant: "crowd"},
		&store.Namespace{Meta: operatortest.Meta("z", 0), Name: "z", Tenant: "calm"},
	), logr.Discard())
	f.Fill(t.Context())
	source := NewSource(f, func(store.ReadTx) []Request { return nil }, On(func(_ store.ReadTx, old, now *store.Service) []Request {
		return []Request{Now(Either(old, now).Namespace, Either(old, now).Name)}
	}))
	if turns {
		source.ByTurns()
	}
	queue := priorityqueue.New[reconcile.Request]("crowd")
	t.Cleanup(queue.ShutDown)
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	return source, queue, f
}

// before counts the objects that a source processes before the object of the calm tenant. This
// object comes after crowd objects of the other tenant.
func before(t *testing.T, turns bool, crowd int) (count int) {
	source, queue, f := crowded(t, turns)
	for i := range crowd {
		f.Publish(Change{New: &store.Service{Namespace: []string{"x", "y"}[i%2], Name: fmt.Sprint("s", i)}})
	}
	f.Publish(Change{New: &store.Service{Namespace: "z", Name: "calm"}})
	found := false
	serve := source.Serve(reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
		found = request.Namespace == "z"
		return reconcile.Result{}, nil
	}))
	for !found {
		request, _, down := queue.GetWithPriority()
		if down {
			t.Fatal("the queue has ended")
		}
		if _, err := serve.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		queue.Done(request)
		if count++; count > crowd+1 {
			t.Fatal("the object of the calm tenant is lost")
		}
	}
	return count - 1
}

// TestTurns_OtherTenantCrowd_FewComeBefore: however many objects of another tenant wait, few of them
// come before. Without turns all of them do.
func TestTurns_OtherTenantCrowd_FewComeBefore(t *testing.T) {
	const crowd = 50 * share
	// The queue may hand out objects of the crowd before the calm one is in it.
	if got := before(t, true, crowd); got > share {
		t.Errorf("%d objects of the crowd come before, want %d at most", got, share)
	}
	if got := before(t, false, crowd); got < crowd {
		t.Errorf("without turns %d objects of the crowd come before, want all %d", got, crowd)
	}
}

// TestTurns_OneTenantBusy_OtherHasTurns: one tenant changes a few objects all the time, so that one of
// them always waits. The many objects of another tenant have their turns.
func TestTurns_OneTenantBusy_OtherHasTurns(t *testing.T) {
	const crowd = 50 * share
	source, queue, f := crowded(t, true)
	for i := range crowd {
		f.Publish(Change{New: &store.Service{Namespace: "x", Name: fmt.Sprint("s", i)}})
	}
	change := func(name string) { f.Publish(Change{New: &store.Service{Namespace: "z", Name: name}}) }
	for i := range share {
		change(fmt.Sprint("busy", i))
	}
	left := crowd
	serve := source.Serve(reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
		if request.Namespace == "z" {
			change(request.Name)
		} else {
			left--
		}
		return reconcile.Result{}, nil
	}))
	for count := 0; left > 0; count++ {
		if count > 3*crowd {
			t.Fatalf("%d objects are processed, and %d of %d still wait", count, left, crowd)
		}
		request, _, _ := queue.GetWithPriority()
		if _, err := serve.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		queue.Done(request)
	}
}

// TestTurns_FailingObjects_NotBeforeOthersForever: objects whose processing fails do not come before the objects of
// others for ever.
func TestTurns_FailingObjects_NotBeforeOthersForever(t *testing.T) {
	source, _, f := crowded(t, true)
	fails := source.Serve(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, errors.New("no answer")
	}))
	last := 1
	for i := range 3 * share {
		name := types.NamespacedName{Namespace: "x", Name: fmt.Sprint("s", i)}
		result, err := fails.Reconcile(t.Context(), reconcile.Request{NamespacedName: name})
		if err == nil || result.Priority == nil || *result.Priority > last {
			t.Fatalf("try %d has the result %+v, %v after the priority %d", i, result, err, last)
		}
		last = *result.Priority
	}
	if last != -2 {
		t.Errorf("the last try has the priority %d", last)
	}
	f.store.View(func(tx store.ReadTx) {
		if request := Now("x", "s0"); !source.turns.expect(tx, &request) {
			t.Error("a change waits for the next try")
		}
	})
}

// TestTurns_ObjectRequestedTwice_ProcessedOnce: a change can demand an earlier time.
func TestTurns_ObjectRequestedTwice_ProcessedOnce(t *testing.T) {
	source, _, f := crowded(t, true)
	expect := func(request Request) (expected bool) {
		f.store.View(func(tx store.ReadTx) { expected = source.turns.expect(tx, &request) })
		return expected
	}
	name := types.NamespacedName{Namespace: "x", Name: "s"}
	for _, step := range []struct {
		why   string
		after time.Duration
		begin bool
		want  bool
	}{
		{"the first request", time.Second, false, true},
		{"one as soon", time.Second, false, false},
		{"a later one", time.Minute, false, false},
		{"an earlier one", 0, false, true},
		{"one that comes while it is processed", 0, true, true},
	} {
		if step.begin {
			source.turns.begin(name)
		}
		if got := expect(Later(step.after, name.Namespace, name.Name)); got != step.want {
			t.Errorf("%s is made: %v", step.why, got)
		}
	}
	source.turns.begin(name)
	source.turns.begin(name)
	if len(source.turns.open) > 0 {
		t.Errorf("%v are left", source.turns.open)
	}
}
