// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package service tells in events why a Service is served in no VPC, and which of
// its endpoints get nothing.
package service

import (
	"context"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/tenancy"
)

// noteLimit is the length of an event's note that the API accepts, in bytes.
const noteLimit = 1000

// Reconciler carries out what decide says. Use New.
type Reconciler struct {
	store  *store.Store
	events events.EventRecorder
	rules  Rules

	mu sync.Mutex
	// refused are the Services of which there was something to say, with what it was
	// last. They are looked at again when something changes that may help. It needs
	// no persistence: after a restart all are told once more.
	refused map[types.NamespacedName]said
}

// said is what was told of one life of a Service.
type said struct {
	uid     string
	refusal tenancy.Refusal
}

// New returns a reconciler.
func New(s *store.Store, recorder events.EventRecorder, rules Rules) *Reconciler {
	return &Reconciler{store: s, events: recorder, rules: rules, refused: map[types.NamespacedName]said{}}
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("service", 1, r, r.source(f))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(_ context.Context, request ctrl.Request) (ctrl.Result, error) {
	var service *store.Service
	var refusal *tenancy.Refusal
	r.store.View(func(tx store.ReadTx) {
		if service = store.GetService(tx, request.Namespace, request.Name); service != nil {
			refusal = decide(tx, service, r.rules)
		}
	})
	if r.news(request.NamespacedName, service, refusal) {
		r.warn(service, *refusal)
	}
	return ctrl.Result{}, nil
}

// news remembers what there is to say of a Service, and tells whether it is
// something new.
func (r *Reconciler) news(name types.NamespacedName, service *store.Service, refusal *tenancy.Refusal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refusal == nil {
		delete(r.refused, name)
		return false
	}
	now := said{service.UID, *refusal}
	before := r.refused[name]
	r.refused[name] = now
	return before != now
}

func (r *Reconciler) warn(service *store.Service, refusal tenancy.Refusal) {
	note := refusal.Message
	if len(note) > noteLimit {
		note = strings.ToValidUTF8(note[:noteLimit-3], "") + "..."
	}
	about := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name, UID: types.UID(service.UID)}}
	r.events.Eventf(about, nil, corev1.EventTypeWarning, refusal.Reason, "ServeInVPC", "%s", note)
}
