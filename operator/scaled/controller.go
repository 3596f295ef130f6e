// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scaled writes ScaledEndpoints: the backends of each Service, as judged by package
// services. Nodes follow these instead of Services, EndpointSlices and Networks. So a node needs
// neither all Services of the cluster nor all Addresses of a VPC (docs/design/140).
package scaled

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
)

// workers is how many Services are written at the same time.
const workers = 4

// lookAgain is how often the verdict of the API server's Service waits for the others.
const lookAgain = time.Second

// Reconciler writes the ScaledEndpoints of Services. It belongs to one term. Use New.
type Reconciler struct {
	// Client writes; its reads come from the informers.
	Client client.Client
	Store  *store.Store
	Rules  Rules

	index *index

	mu sync.Mutex
	// tried are the Services that have been written once, or could not be.
	tried map[types.NamespacedName]bool
}

// New returns a reconciler.
func New(writer client.Client, rows *store.Store, rules Rules) *Reconciler {
	return &Reconciler{
		Client: writer,
		Store:  rows,
		Rules:  rules,
		index:  newIndex(),
		tried:  map[types.NamespacedName]bool{},
	}
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("scaledendpoint", workers, r, r.source(f))
}

// Reconcile implements reconcile.Reconciler. The request names a Service.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.note(request.NamespacedName)
	var steps []step
	waits := false
	r.Store.View(func(tx store.ReadTx) {
		steps = decide(tx, r.Rules, request.Namespace, request.Name)
		waits = request.String() == r.Rules.APIServer && claimsAll(steps) && !r.triedAll(tx)
	})
	if waits {
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	err := r.write(ctx, steps)
	r.mu.Lock()
	r.tried[request.NamespacedName] = true
	r.mu.Unlock()
	return ctrl.Result{}, err
}

// note indexes a Service by the objects that it depends on, before the snapshot is taken that
// judges it. A change behind the snapshot finds the Service then.
func (r *Reconciler) note(name types.NamespacedName) {
	r.Store.View(func(tx store.ReadTx) {
		service := store.GetService(tx, name.Namespace, name.Name)
		if service == nil {
			r.index.put(name, nil, false)
			return
		}
		named := services.Named(tx, service)
		r.index.put(name, named, services.IsWide(tx, services.VPCOf(tx, service, r.Rules.DefaultVPC), service, named))
	})
}

// claimsAll reports whether the steps tell nodes for the first time that this version has judged
// all Services.
func claimsAll(steps []step) bool {
	for _, s := range steps {
		if version := versionOf(s.wanted); version != 0 && versionOf(s.held) != version {
			return true
		}
	}
	return false
}

func versionOf(row *scaled.Endpoint) int {
	if row == nil || row.Head == nil {
		return 0
	}
	return row.Head.AllJudged
}

// triedAll reports whether all other Services have been written in this term, and also the objects
// of Services that are gone. A Service that the API server refuses does not hold up the nodes.
func (r *Reconciler) triedAll(tx store.ReadTx) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	isTried := func(namespace, name string) bool {
		return namespace+"/"+name == r.Rules.APIServer || r.tried[types.NamespacedName{Namespace: namespace, Name: name}]
	}
	for _, service := range store.ListServices(tx) {
		if !isTried(service.Namespace, service.Name) {
			return false
		}
	}
	for row := range scaled.All(tx) {
		if !isTried(row.Namespace, row.Service) {
			return false
		}
	}
	return true
}

// write carries steps out. Each write names the object as it was read, so a decision from an
// outdated copy changes nothing.
func (r *Reconciler) write(ctx context.Context, steps []step) error {
	for _, s := range steps {
		var err error
		switch {
		case s.wanted == nil:
			uid := types.UID(s.held.UID)
			err = client.IgnoreNotFound(r.Client.Delete(ctx, object(s.held), client.Preconditions{UID: &uid}))
		case s.held == nil:
			err = r.create(ctx, object(s.wanted))
		default:
			changed := object(s.wanted)
			changed.UID, changed.ResourceVersion = types.UID(s.held.UID), s.held.ResourceVersion
			err = r.Client.Update(ctx, changed)
		}
		if err != nil {
			return fmt.Errorf("ScaledEndpoint %s: %w", s.name(), err)
		}
	}
	return nil
}

func (s step) name() string {
	if s.wanted != nil {
		return s.wanted.Name
	}
	return s.held.Name
}

// create makes an object. If an object exists and has no row, somebody has changed it so that it
// can't be read: create replaces it. An object that the informers do not know yet is left alone,
// because its event is still to come.
func (r *Reconciler) create(ctx context.Context, wanted *v1alpha1.ScaledEndpoint) error {
	err := r.Client.Create(ctx, wanted.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there := &v1alpha1.ScaledEndpoint{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: wanted.Name}, there); err != nil {
		return client.IgnoreNotFound(err)
	}
	there.Spec = wanted.Spec
	return r.Client.Update(ctx, there)
}

func object(row *scaled.Endpoint) *v1alpha1.ScaledEndpoint {
	return &v1alpha1.ScaledEndpoint{ObjectMeta: metav1.ObjectMeta{Name: row.Name}, Spec: specOf(row)}
}
