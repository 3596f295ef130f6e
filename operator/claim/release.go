// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// ReleaseAll releases everything that counts for a holder on a node, except addresses that
// are held back: the pod may still run with them.
func (c *Claimer) ReleaseAll(ctx context.Context, holder store.Holder, node string) error {
	var rows []*store.Address
	c.Store.View(func(tx store.ReadTx) { rows = store.AddressesOf(tx, holder, node) })
	for _, row := range rows {
		if row.IsHeldBack() {
			continue
		}
		if err := c.Release(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// Release deletes an address, or removes its row if it was never created. It returns nil for an
// address that is gone already. A successor with the same name causes a conflict error: the event
// of the successor is still to come.
func (c *Claimer) Release(ctx context.Context, row *store.Address) error {
	object := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: row.Name}}
	if err := c.remove(ctx, object, row.UID, row.Holder); err != nil {
		return fmt.Errorf("release %s of %s: %w", row.IP, row.Place(), err)
	}
	return c.forget(row, func(tx store.Tx) (bool, error) { return allocation.Forget(tx, row.Name, row.UID) })
}

// drop deletes an address of a set that is not kept. The preferred set of the same
// attachment keeps its IPs from this moment on, even if the object names one of them. A
// row that is not in the API is removed, so that a set is not kept if another holder has a
// part of it.
func (c *Claimer) drop(ctx context.Context, row *store.Address, wanted Wanted) error {
	return c.expel(ctx, row, func(tx store.Tx) error { return holdPreferred(tx, wanted) })
}

// holdPreferred assumes the rows that the preferred set of an attachment lacks, if the
// attachment holds a part of that set.
func holdPreferred(tx store.Tx, wanted Wanted) error {
	if len(wanted.Prefer) == 0 {
		return nil
	}
	for _, found := range setsOf(tx, wanted.Request) {
		first := found.members[0]
		if first.Domain() != wanted.Domain() || !slices.Equal(first.Set, wanted.Prefer) {
			continue
		}
		if whole, ok := complete(tx, found); ok {
			return assumeLacking(tx, whole.members)
		}
	}
	return nil
}

// Expel deletes an address that does not count for the pod that it names, or is in no
// set that the pod keeps.
func (c *Claimer) Expel(ctx context.Context, row *store.Address) error {
	return c.expel(ctx, row, func(store.Tx) error { return nil })
}

// expel deletes an address, and calls then in the transaction that removes its row.
func (c *Claimer) expel(ctx context.Context, row *store.Address, then func(store.Tx) error) error {
	object := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: row.Name}}
	if err := c.remove(ctx, object, row.UID, row.Holder); err != nil {
		return fmt.Errorf("expel %s of %s: %w", row.IP, row.Place(), err)
	}
	return c.forget(row, func(tx store.Tx) (bool, error) {
		gone, err := allocation.Forget(tx, row.Name, row.UID)
		if gone && err == nil {
			err = then(tx)
		}
		return gone, err
	})
}

// remove deletes the object with a UID from the API. An object without a UID was never there.
func (c *Claimer) remove(ctx context.Context, object client.Object, uid string, holder store.Holder) error {
	if uid == "" {
		return nil
	}
	precondition := types.UID(uid)
	err := c.Client.Delete(ctx, object, client.Preconditions{UID: &precondition})
	if err == nil || apierrors.IsNotFound(err) {
		ctrl.LoggerFrom(ctx).Info("claim released", "claim", object.GetName(), "holder", holder.Name)
		return nil
	}
	return err
}

// forget removes a row from the store, and notifies the controllers that wait for its
// address.
func (c *Claimer) forget(row any, remove func(store.Tx) (bool, error)) error {
	gone := false
	err := c.Store.Update(func(tx store.Tx) (err error) {
		gone, err = remove(tx)
		return err
	})
	if gone {
		c.Feed.Publish(feed.Change{Old: row})
	}
	return err
}
