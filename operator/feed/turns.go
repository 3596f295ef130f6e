// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"math/bits"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/tenancy"
)

// share is how many objects of a tenant are processed as early as those of other tenants.
const share = 32

// GiveWay returns the priority of an object of a tenant that has so many others to be
// processed: the more there are, the later it is its turn. Objects of other tenants then wait
// for the share of each tenant at most.
func GiveWay(crowd int) int { return -bits.Len(uint(crowd / share)) }

// Turn returns the delay of an object that the objects of its tenant precede, so many of
// them: of each tenant one share is due in each step. Objects that another tenant's change
// requests then cost the same, however many there are.
func Turn(step time.Duration, before int) time.Duration {
	return step * time.Duration(1+before/share)
}

// Spread delays requests for objects of one tenant by their turns, and more than they are
// delayed already.
func Spread(step time.Duration, requests []Request) []Request {
	for i := range requests {
		requests[i].After += Turn(step, i)
	}
	return requests
}

// turns has the requests of a source that are not processed yet, with the tenants of their
// namespaces. It needs no persistence: a restarted operator requests everything.
type turns struct {
	mu    sync.Mutex
	open  map[types.NamespacedName]turn
	crowd map[string]int
}

type turn struct {
	tenant string
	after  time.Duration
}

func newTurns() *turns {
	return &turns{open: map[types.NamespacedName]turn{}, crowd: map[string]int{}}
}

// expect notes a request and gives it its priority. It reports false for an object that is
// requested already and as soon: many changes then make no more requests than there are
// objects.
func (t *turns) expect(tx store.ReadTx, request *Request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, open := t.open[request.NamespacedName]
	switch {
	case open && one.after <= request.After:
		return false
	case !open:
		one.tenant = tenancy.OfNamespace(tx, request.Namespace)
		t.crowd[one.tenant]++
	}
	one.after = request.After
	t.open[request.NamespacedName] = one
	request.Priority = GiveWay(t.crowd[one.tenant])
	return true
}

// begin notes that an object is processed: later changes request it again.
func (t *turns) begin(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, open := t.open[name]
	if !open {
		return
	}
	delete(t.open, name)
	if t.crowd[one.tenant]--; t.crowd[one.tenant] == 0 {
		delete(t.crowd, one.tenant)
	}
}

// turning is a reconciler whose source has turns.
type turning struct {
	inner reconcile.Reconciler
	turns *turns
}

// Reconcile implements reconcile.Reconciler.
func (r turning) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	// Before the store is read, so that no later change is missed.
	r.turns.begin(request.NamespacedName)
	return r.inner.Reconcile(ctx, request)
}
