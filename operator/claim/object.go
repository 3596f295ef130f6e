// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// objects are the API objects O that are created for rows R.
type objects[O kube.Object, R any] struct {
	kind descriptor.Of[O, R]
	rows[O, R]
}

// rows has the rows R in the store, and makes the objects O for them.
type rows[O kube.Object, R any] interface {
	// object makes the object of a row.
	object(row *R) (O, error)
	// uid returns the UID of a row, "" as long as the row is assumed.
	uid(row *R) string
	// held returns the row of the same address in the store.
	held(tx store.ReadTx, row *R) *R
	// confirm replaces an assumed row by the row of the object.
	confirm(tx store.Tx, assumed, row *R) error
}

var (
	addresses         = objects[*v1alpha1.Address, store.Address]{vpcs.Address, addressRows{}}
	externalAddresses = objects[*v1alpha1.ExternalAddress, external.Address]{vpcs.ExternalAddress, externalRows{}}
)

// create creates the objects of the rows that have no UID yet, and returns the rows of
// all. It stops at the first existing object that differs from the plan, and returns
// the row of that one only. After an error, which may hide a success, the rows stay
// assumed: the next call requests the same names and recognises its own objects.
func (o objects[O, R]) create(
	ctx context.Context,
	c *Claimer,
	rows []*R,
	planned func(real, row *R) bool,
) (made []*R, other *R, _ error) {
	for _, row := range rows {
		real := row
		if o.uid(row) == "" {
			var err error
			if real, err = o.createOne(ctx, c, row); err != nil {
				return nil, nil, fmt.Errorf("claim %s: %w", o.kind.Name, err)
			}
			if !planned(real, row) {
				return nil, real, nil
			}
		}
		made = append(made, real)
	}
	return made, nil, nil
}

// createOne returns the row of the object that has the row's name now. An existing
// object may be from an earlier call with a lost reply.
func (o objects[O, R]) createOne(ctx context.Context, c *Claimer, row *R) (*R, error) {
	var assumed *R
	c.Store.View(func(tx store.ReadTx) { assumed = o.held(tx, row) })
	object, err := o.object(row)
	if err != nil {
		return nil, err
	}
	key := client.ObjectKeyFromObject(object)
	err = c.Client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		object = o.kind.New()
		err = c.Live.Get(ctx, key, object)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key.Name, err)
	}
	real, err := o.kind.Read(object)
	if err != nil {
		return nil, err
	}
	return real, c.Store.Update(func(tx store.Tx) error { return o.confirm(tx, assumed, real) })
}

// addressRows implements rows for addresses of VPCs and of networks outside of them.
type addressRows struct{}

func (addressRows) uid(row *store.Address) string { return row.UID }

func (addressRows) held(tx store.ReadTx, row *store.Address) *store.Address {
	return store.GetAddress(tx, row.Name)
}

func (addressRows) confirm(tx store.Tx, assumed, row *store.Address) error {
	return allocation.Confirm(tx, assumed, row)
}

func (addressRows) object(row *store.Address) (*v1alpha1.Address, error) {
	ips := make([]string, 0, len(row.Set))
	for _, ip := range row.Set {
		ips = append(ips, ip.String())
	}
	object := &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: row.Name},
		Spec: v1alpha1.AddressSpec{
			VPC: row.VPC, Network: referenceTo(row.Network), Subnet: row.Subnet, IP: row.IP.String(), MAC: row.MAC,
			Node: row.Node,
			Holder: v1alpha1.AddressHolder{
				Kind: v1alpha1.HolderKind(row.Holder.Kind), Namespace: row.Holder.Namespace,
				Name: row.Holder.Name, UID: row.Holder.UID,
			},
			Attachment: row.Attachment,
			Set:        ips,
			Config:     row.Config, Interfaces: row.Interfaces,
		},
	}
	if row.External {
		object.Spec.Driver = v1alpha1.DriverExternal
	}
	return object, nil
}

// referenceTo returns nil for no network.
func referenceTo(network store.NetworkRef) *v1alpha1.NetworkReference {
	if network.UID == "" {
		return nil
	}
	return &v1alpha1.NetworkReference{
		Group: network.Group, Kind: network.Kind, Namespace: network.Namespace, Name: network.Name, UID: network.UID,
	}
}

// externalRows implements rows for external addresses.
type externalRows struct{}

func (externalRows) uid(row *external.Address) string { return row.UID }

func (externalRows) held(tx store.ReadTx, row *external.Address) *external.Address {
	return external.GetAddress(tx, row.IP)
}

func (externalRows) confirm(tx store.Tx, assumed, row *external.Address) error {
	return external.ConfirmAddress(tx, assumed, row)
}

func (externalRows) object(row *external.Address) (*v1alpha1.ExternalAddress, error) {
	return &v1alpha1.ExternalAddress{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExternalAddressName(row.IP)},
		Spec: v1alpha1.ExternalAddressSpec{
			IP: row.IP.String(), Pool: row.Pool,
			Service: v1alpha1.ServiceReference{Namespace: row.Holder.Namespace, Name: row.Holder.Name, UID: row.Holder.UID},
		},
	}, nil
}
