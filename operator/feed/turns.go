// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// Turn returns the delay of an object. before is the number of the tenant's objects that precede
// it: in each step one share of each tenant is due. Objects that another tenant's change requests
// then cost the same, however many there are.
func Turn(step time.Duration, before int) time.Duration {
	return step * time.Duration(1+before/share)
}

// Spread delays requests for objects of one tenant by their turns, in addition to their own delays.
func Spread(step time.Duration, requests []Request) []Request {
	for i := range requests {
		requests[i].After += Turn(step, i)
	}
	return requests
}

// turns has the requests of a source that are not processed yet, with the tenants of their
// namespaces and their rounds. It needs no persistence: a restarted operator requests everything.
type turns struct {
	mu     sync.Mutex
	open   map[types.NamespacedName]turn
	rounds Rounds
}

type turn struct {
	tenant string
	round  int
	after  time.Duration
}

// unknownAfter is the delay of a repeated object whose pause the source does not know: each change
// requests it sooner.
const unknownAfter = math.MaxInt64

func newTurns() *turns { return &turns{open: map[types.NamespacedName]turn{}} }

// expect notes a request and gives it its priority. It reports false for an object that already has
// a request at least as soon. So many changes never make more requests than there are objects.
func (t *turns) expect(tx store.ReadTx, request *Request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, open := t.open[request.NamespacedName]
	switch {
	case open && one.after <= request.After:
		return false
	case !open:
		one.tenant = tenancy.OfNamespace(tx, request.Namespace)
		one.round = t.rounds.Take(one.tenant)
	}
	one.after = request.After
	t.open[request.NamespacedName] = one
	request.Priority = Priority(one.round)
	return true
}

// begin notes that an object is processed: later changes request it again. It returns the
// tenant of the object.
func (t *turns) begin(name types.NamespacedName) (tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, open := t.open[name]
	if open {
		delete(t.open, name)
		t.rounds.Begin(one.round)
	}
	return one.tenant
}

// again notes that an object is processed again later, and returns its priority. A change may have
// requested it by now.
func (t *turns) again(name types.NamespacedName, tenant string) (priority int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, open := t.open[name]
	if !open {
		one = turn{tenant: tenant, round: t.rounds.Take(tenant), after: unknownAfter}
		t.open[name] = one
	}
	return Priority(one.round)
}

// turning is a reconciler whose source has turns.
type turning struct {
	inner reconcile.Reconciler
	turns *turns
}

// Reconcile implements reconcile.Reconciler.
func (r turning) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	// Before the store is read, so that no later change is missed.
	tenant := r.turns.begin(request.NamespacedName)
	result, err := r.inner.Reconcile(ctx, request)
	if err != nil || result.RequeueAfter > 0 {
		priority := r.turns.again(request.NamespacedName, tenant)
		result.Priority = &priority
	}
	return result, err
}
