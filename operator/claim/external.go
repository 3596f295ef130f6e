// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

// ClaimExternal claims the addresses of a Service outside of every VPC and returns their rows, one
// per family. Addresses that the Service holds are kept, even if they differ from the request. It
// returns the errors that Claim returns, except ErrUnsettled, because no node holds such an address
// by itself.
func (c *Claimer) ClaimExternal(ctx context.Context, request ipam.ExternalRequest) ([]*external.Address, error) {
	request.Resting, request.Exclude = c.Resting, map[netip.Addr]struct{}{}
	for range rounds {
		request.Now = c.Clock.Now()
		planned, err := c.reserveExternal(request)
		if err != nil {
			return nil, err
		}
		rows, other, err := externalAddresses.create(ctx, c, planned, ofService)
		if err != nil || other == nil {
			return rows, err
		}
		request.Exclude[other.IP] = struct{}{}
	}
	return nil, errOutpaced
}

// reserveExternal chooses the missing addresses and puts rows for them into the store,
// as reserve does.
func (c *Claimer) reserveExternal(request ipam.ExternalRequest) (rows []*external.Address, err error) {
	err = c.Store.Update(func(tx store.Tx) error {
		if !lives(tx, request.Holder) {
			return ErrHolderGone
		}
		if rows, err = ipam.ChooseExternal(tx, request); err != nil {
			return err
		}
		for _, row := range rows {
			if external.GetAddress(tx, row.IP) != nil {
				continue
			}
			if err := external.AssumeAddress(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
	return rows, err
}

func ofService(real, row *external.Address) bool { return real.Holder.UID == row.Holder.UID }

// ReleaseExternal deletes an external address, or removes its row if it was never
// created, as Release does.
func (c *Claimer) ReleaseExternal(ctx context.Context, row *external.Address) error {
	object := &v1alpha1.ExternalAddress{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExternalAddressName(row.IP)}}
	if err := c.remove(ctx, object, row.UID, row.Holder); err != nil {
		return fmt.Errorf("release external address %s: %w", row.IP, err)
	}
	return c.forget(row, func(tx store.Tx) (bool, error) { return external.DeleteAddress(tx, row.IP, row.UID), nil })
}
