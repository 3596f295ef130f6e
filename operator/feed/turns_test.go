// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
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

// crowded is a source of Services with a queue of controller-runtime. The namespaces x and y
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

// before counts the objects that a source processes before the one of the calm tenant, which
// comes after so many of the other tenant.
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

// TestATenantTakesTurnsWithACrowd: however many objects of another tenant wait, few of them
// come before. Without turns all of them do.
func TestATenantTakesTurnsWithACrowd(t *testing.T) {
	const crowd = 50 * share
	// The queue may hand out objects of the crowd before the calm one is in it.
	if got := before(t, true, crowd); got > share {
		t.Errorf("%d objects of the crowd come before, want %d at most", got, share)
	}
	if got := before(t, false, crowd); got < crowd {
		t.Errorf("without turns %d objects of the crowd come before, want all %d", got, crowd)
	}
}

// TestAnObjectIsRequestedOnceUntilItIsProcessed, and earlier if a change demands it.
func TestAnObjectIsRequestedOnceUntilItIsProcessed(t *testing.T) {
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
	if len(source.turns.open)+len(source.turns.crowd) > 0 {
		t.Errorf("%v and %v are left", source.turns.open, source.turns.crowd)
	}
}
