// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
)

// ClaimExternal gives a Service its addresses outside of every VPC and returns their
// rows, one per family. What it holds already is kept, whatever else the request
// says. The errors are as those of Claim; of those to try again there is no
// ErrUnsettled, since no node holds such an address by itself.
func (c *Claimer) ClaimExternal(ctx context.Context, request ipam.ExternalRequest) ([]*store.ExternalAddress, error) {
	request.Resting, request.Exclude = c.Resting, map[netip.Addr]struct{}{}
	for range rounds {
		request.Now = c.Now()
		planned, err := c.reserveExternal(request)
		if err != nil {
			return nil, err
		}
		rows, taken, err := c.createExternal(ctx, planned)
		if err != nil || rows != nil {
			return rows, err
		}
		request.Exclude[taken] = struct{}{}
	}
	return nil, errOutpaced
}

// reserveExternal chooses what is lacking and puts rows for it into the store, as
// reserve does.
func (c *Claimer) reserveExternal(request ipam.ExternalRequest) (rows []*store.ExternalAddress, err error) {
	err = c.Store.Update(func(tx store.Tx) error {
		if !lives(tx, request.Holder) {
			return ErrHolderGone
		}
		if rows, err = ipam.ChooseExternal(tx, request); err != nil {
			return err
		}
		for _, row := range rows {
			if store.GetExternalAddress(tx, row.IP) != nil {
				continue
			}
			if err := store.AssumeExternalAddress(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
	return rows, err
}

// createExternal creates the objects of the rows that have no UID yet. It returns no
// rows, and the IP, where somebody else has one.
func (c *Claimer) createExternal(ctx context.Context, rows []*store.ExternalAddress) (_ []*store.ExternalAddress, taken netip.Addr, _ error) {
	made := make([]*store.ExternalAddress, 0, len(rows))
	for _, row := range rows {
		if row.UID != "" {
			made = append(made, row)
			continue
		}
		object, assumed := externalObject(row), c.assumedExternal(row)
		err := c.Client.Create(ctx, object)
		if apierrors.IsAlreadyExists(err) {
			err = c.Live.Get(ctx, client.ObjectKeyFromObject(object), object)
		}
		if err != nil {
			return nil, netip.Addr{}, fmt.Errorf("claim external address %s: %w", row.IP, err)
		}
		real, err := kinds.ExternalAddress.Convert(object)
		if err != nil {
			return nil, netip.Addr{}, err
		}
		if err := c.Store.Update(func(tx store.Tx) error { return store.ConfirmExternalAddress(tx, assumed, real) }); err != nil {
			return nil, netip.Addr{}, err
		}
		if real.Holder.UID != row.Holder.UID {
			return nil, row.IP, nil
		}
		made = append(made, real)
	}
	return made, netip.Addr{}, nil
}

// assumedExternal returns the row that stands for an address until it is created.
func (c *Claimer) assumedExternal(row *store.ExternalAddress) (found *store.ExternalAddress) {
	c.Store.View(func(tx store.ReadTx) { found = store.GetExternalAddress(tx, row.IP) })
	return found
}

// ReleaseExternal deletes an external address, or forgets it where it was never
// created, as Release does.
func (c *Claimer) ReleaseExternal(ctx context.Context, row *store.ExternalAddress) error {
	object := &v1alpha1.ExternalAddress{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExternalAddressName(row.IP)}}
	if err := c.remove(ctx, object, row.UID, row.Holder); err != nil {
		return fmt.Errorf("release external address %s: %w", row.IP, err)
	}
	return c.forget(row, func(tx store.Tx) (bool, error) { return store.DeleteExternalAddress(tx, row.IP, row.UID), nil })
}

func externalObject(row *store.ExternalAddress) *v1alpha1.ExternalAddress {
	return &v1alpha1.ExternalAddress{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExternalAddressName(row.IP)},
		Spec: v1alpha1.ExternalAddressSpec{
			IP: row.IP.String(), Pool: row.Pool,
			Service: v1alpha1.ServiceReference{Namespace: row.Holder.Namespace, Name: row.Holder.Name, UID: row.Holder.UID},
		},
	}
}
