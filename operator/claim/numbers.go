// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
)

// Numbers creates and deletes the claims of a kind whose names are numbers, such as
// VNIClaims, and keeps their rows ahead of the watch events.
type Numbers struct {
	Kind *descriptor.Kind
	// Client writes.
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Store *store.Store
	// Feed notifies other controllers.
	Feed feed.Publisher
}

// Create creates a claim and puts its row into the store. It returns the error of the API
// server for a name that exists (apierrors.IsAlreadyExists).
func (n Numbers) Create(ctx context.Context, claim client.Object) error {
	if err := n.Client.Create(ctx, claim); err != nil {
		return fmt.Errorf("create %s %s: %w", n.Kind.Name, claim.GetName(), err)
	}
	return n.Remember(ctx, claim)
}

// Remember puts a claim into the store ahead of its watch event. If the event of its
// deletion came before that, the row would stay, so Remember reads the API server
// afterwards. The event of a later deletion removes the row.
func (n Numbers) Remember(ctx context.Context, claim client.Object) error {
	row, err := n.Kind.Row(claim)
	if err != nil {
		return fmt.Errorf("read %s %s: %w", n.Kind.Name, claim.GetName(), err)
	}
	if err := n.Store.Update(func(tx store.Tx) error { return n.Kind.Put(tx, row) }); err != nil {
		return err
	}
	found := n.Kind.NewObject().(client.Object)
	err = n.Live.Get(ctx, client.ObjectKeyFromObject(claim), found)
	switch {
	case err == nil && found.GetUID() == claim.GetUID():
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("read %s %s: %w", n.Kind.Name, claim.GetName(), err)
	}
	return n.Store.Update(func(tx store.Tx) error { return n.Kind.Delete(tx, descriptor.IDOf(claim)) })
}

// Release deletes the claim with a name and UID, and returns nil for a claim that is gone. It
// removes the row of the claim at once, so that the next pass does not release the claim again.
func (n Numbers) Release(ctx context.Context, name, uid string) error {
	object := n.Kind.NewObject().(client.Object)
	object.SetName(name)
	precondition := types.UID(uid)
	err := n.Client.Delete(ctx, object, client.Preconditions{UID: &precondition})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("release %s %s: %w", n.Kind.Name, name, err)
	}
	id := descriptor.ID{Name: name, UID: uid}
	var gone feed.Change
	err = n.Store.Update(func(tx store.Tx) error {
		held := n.Kind.Get(tx, id)
		if err := n.Kind.Delete(tx, id); err != nil {
			return err
		}
		if n.Kind.Get(tx, id) == nil {
			gone.Old = held
		}
		return nil
	})
	n.Feed.Publish(gone)
	return err
}
