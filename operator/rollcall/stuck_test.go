// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rollcall

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

// errStuck is the error of every request about one object.
var errStuck = errors.New("this object can't be handled")

// stuckAPI has no VPCs. A request about the object of a name fails.
type stuckAPI struct {
	client.Client
	name    string
	created int
	deleted []string
}

func (a *stuckAPI) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if key.Name == a.name {
		return errStuck
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (a *stuckAPI) Create(context.Context, client.Object, ...client.CreateOption) error {
	a.created++
	return nil
}

func (a *stuckAPI) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	if object.GetName() == a.name {
		return errStuck
	}
	a.deleted = append(a.deleted, object.GetName())
	return nil
}

// restingClaims are claims of VPCs that are gone.
func restingClaims(t *testing.T) *store.Store {
	t.Helper()
	s := operatortest.New(t)
	if err := s.Update(func(tx store.Tx) error {
		for i, vpc := range []string{"a", "b/c", "d"} {
			if err := store.PutVNIClaim(tx, &store.VNIClaim{Meta: store.Meta{UID: vpc}, VNI: uint32(5 + i), VPC: vpc, VPCUID: "gone-" + vpc}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTerm_VPCUnreadable_Settled(t *testing.T) {
	api := &stuckAPI{name: "b/c"}
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	r := &Reconciler{Client: api, Live: api, Store: restingClaims(t), Clock: now, Every: time.Minute}
	if _, err := r.ask(t.Context()); err != nil || api.created != 1 {
		t.Fatalf("%d calls, %v, want one", api.created, err)
	}
	if !r.covered["a"] || !r.covered["d"] || r.covered["b/c"] {
		t.Errorf("the call covers %v, want a and d", r.covered)
	}
	if left, err := r.ask(t.Context()); err != nil || left != time.Minute || api.created != 1 {
		t.Errorf("the next call is due in %s, %v, after %d calls; want one after a minute", left, err, api.created)
	}
}

func TestVNIClaim_Unreleasable_OthersReleased(t *testing.T) {
	api := &stuckAPI{name: v1alpha1.VNIClaimName(6)}
	r := &Reconciler{Client: api, Live: api, Store: restingClaims(t), call: "now", covered: map[string]bool{"a": true, "b/c": true, "d": true}}
	if again := r.release(t.Context()); again != releaseAgain {
		t.Errorf("the release is tried again after %s, want %s", again, releaseAgain)
	}
	if want := []string{v1alpha1.VNIClaimName(5), v1alpha1.VNIClaimName(7)}; !slices.Equal(api.deleted, want) {
		t.Errorf("released are %v, want %v", api.deleted, want)
	}
}
