// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package address

import (
	"errors"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// leaving is a node whose daemon has left, with an Address and an AttachmentClaim of a pod that
// has ended, and with the daemon's answer and condition.
type leaving struct {
	client.Client
	store   *store.Store
	claimer *claim.Claimer
	address *store.Address
	claim   *multinet.Claim
	answer  *store.RollCall
}

func newLeaving(t *testing.T) *leaving {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	pod := operatortest.Pod("blue", "a", "p", "", "")
	l := &leaving{address: operatortest.Address("v", "s", "10.0.0.9", pod)}
	l.claim = &multinet.Claim{Meta: operatortest.Meta("c1", 0), Namespace: "a", Name: "c1", PodName: pod.Name, PodUID: pod.UID, Node: pod.Node}
	l.claim.Deleting, l.claim.Finalizer = true, true
	l.answer = &store.RollCall{Meta: operatortest.Meta("r1", 0), Name: v1alpha1.NodeRollCall(pod.Node)}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Node, UID: "n1"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: v1alpha1.NetworkHealthyCondition, Status: corev1.ConditionTrue}}
	claimed := &v1alpha1.AttachmentClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "c1", UID: "c1", Finalizers: []string{v1alpha1.Finalizer}, DeletionTimestamp: &metav1.Time{Time: time.Now()},
	}}
	l.Client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(node).WithObjects(
		node, claimed,
		&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: l.address.Name, UID: types.UID(l.address.UID)}},
		&v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: l.answer.Name}},
	).Build()
	l.store = operatortest.New(t, l.address, l.claim, l.answer, &store.Node{Meta: operatortest.Meta("n1", 0), Name: pod.Node})
	l.claimer = &claim.Claimer{
		Client: l, Live: l, Store: l.store, Resting: &ipam.Resting{}, Term: operatortest.Term(true), Feed: feed.New(nil, logr.Discard()), Clock: clock.RealClock{},
	}
	return l
}

// dropAnswer deletes the answer, and returns true: the feed requests the node's objects.
func (l *leaving) dropAnswer(t *testing.T) (requests bool) {
	t.Helper()
	err := l.Delete(t.Context(), &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: l.answer.Name}})
	err = errors.Join(err, l.store.Update(func(tx store.Tx) error {
		store.DeleteRollCall(tx, l.answer.Name, l.answer.UID)
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// dropCondition deletes the condition, and returns false: the feed has no event for that.
func (l *leaving) dropCondition(t *testing.T) (requests bool) {
	t.Helper()
	if err := l.Status().Update(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.address.Node, UID: "n1"}}); err != nil {
		t.Fatal(err)
	}
	return false
}

// TestAddress_DaemonTracesGoInAnyOrder_Released: a controller is called by an
// event of the feed, or after the wait that its last result demands.
func TestAddress_DaemonTracesGoInAnyOrder_Released(t *testing.T) {
	addresses := func(l *leaving) (reconcile.Reconciler, ctrl.Request, client.Object) {
		key := client.ObjectKey{Name: l.address.Name}
		return &Reconciler{Live: l, Store: l.store, Claimer: l.claimer}, ctrl.Request{NamespacedName: key}, &v1alpha1.Address{}
	}
	claims := func(l *leaving) (reconcile.Reconciler, ctrl.Request, client.Object) {
		key := client.ObjectKey{Namespace: l.claim.Namespace, Name: l.claim.Name}
		return &Attachments{Live: l, Store: l.store, Claimer: l.claimer}, ctrl.Request{NamespacedName: key}, &v1alpha1.AttachmentClaim{}
	}
	answer, condition := (*leaving).dropAnswer, (*leaving).dropCondition
	for name, c := range map[string]struct {
		of        func(l *leaving) (reconcile.Reconciler, ctrl.Request, client.Object)
		deletions []func(*leaving, *testing.T) bool
	}{
		"an Address, the answer goes first":            {addresses, []func(*leaving, *testing.T) bool{answer, condition}},
		"an Address, the condition goes first":         {addresses, []func(*leaving, *testing.T) bool{condition, answer}},
		"an AttachmentClaim, the answer goes first":    {claims, []func(*leaving, *testing.T) bool{answer, condition}},
		"an AttachmentClaim, the condition goes first": {claims, []func(*leaving, *testing.T) bool{condition, answer}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaving(t)
			reconciler, request, object := c.of(l)
			called := true
			for i := 0; ; i++ {
				var result ctrl.Result
				if called {
					var err error
					if result, err = reconciler.Reconcile(t.Context(), request); err != nil {
						t.Fatal(err)
					}
				}
				kept := l.Get(t.Context(), request.NamespacedName, object) == nil
				if kept != (i < len(c.deletions)) {
					t.Fatalf("after %d deletions it exists: %t", i, kept)
				}
				if i == len(c.deletions) {
					return
				}
				called = c.deletions[i](l, t) || result.RequeueAfter > 0
			}
		})
	}
}
