// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subnet checks Subnets against their VPC and its other Subnets, counts
// their addresses, and delays their deletion while an address is in use.
package subnet

import (
	"context"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

// countsEvery bounds how often the figures of one subnet are written.
const countsEvery = 2 * time.Second

// Reconciler applies the decisions of decide.
type Reconciler struct {
	// Client writes; its reads come from the informers.
	Client client.Client
	Store  store.Central
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("subnet", 1, r, source(f))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	subnet := &v1alpha1.Subnet{}
	if err := r.Client.Get(ctx, request.NamespacedName, subnet); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// Before it can be Ready, so that no address outlives its subnet.
	if err := write.AddFinalizer(ctx, r.Client, subnet); err != nil {
		return ctrl.Result{}, err
	}
	row := feed.Row(vpcs.Subnet, subnet)
	if row == nil {
		return ctrl.Result{}, nil // package announce tells that
	}
	d, known, err := r.decide(row)
	if err != nil || !known {
		return ctrl.Result{}, err
	}
	if d.empty {
		if had, err := write.RemoveFinalizer(ctx, r.Client, subnet); had || err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.writeStatus(ctx, subnet, d)
}

// decide runs the plan, and marks a subnet that is being deleted in the store in the
// same transaction: an address was either chosen before, and is counted, or is not
// chosen from this subnet. Of a subnet that the store leaves out, its last sound row is
// marked, if there is one. known is false if the store does not have the subnet. Then
// it was deleted since it was read, and its row must not be created again; or its
// event is still to come and requests it again.
func (r *Reconciler) decide(row *store.Subnet) (d decision, known bool, err error) {
	if !row.Deleting {
		r.Store.View(func(tx store.ReadTx) { d = decide(r.Store.Of(tx), row) })
		return d, true, nil
	}
	leftOut := row.Check() != nil
	err = r.Store.Update(func(tx store.Tx) error {
		held := store.GetSubnet(tx, row.Name)
		if held == nil && leftOut {
			d, known = decide(r.Store.Of(tx), row), true
			return nil
		}
		if known = held != nil && held.UID == row.UID; !known {
			return nil
		}
		d = decide(r.Store.Of(tx), row)
		marked := *row
		if leftOut {
			marked = *held
			marked.Deleting = true
		}
		return store.PutSubnet(tx, &marked)
	})
	return d, known, err
}

// source requests a subnet when it, its usage or its addresses change, and all subnets of a VPC
// when the VPC or one of them changes, because it may have caused a conflict.
func source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, func(tx store.ReadTx) []feed.Request {
		return append(everything(tx), f.Leaving(vpcs.Subnet.Kind)...)
	},
		feed.OnLeaving(vpcs.Subnet.Kind),
		feed.On(func(tx store.ReadTx, old, now *store.Subnet) []feed.Request {
			if old != nil && now != nil && sameRanges(old, now) {
				return []feed.Request{feed.Now("", now.Name)}
			}
			requests := ofVPC(tx, feed.Either(old, now).VPC)
			return append(requests, feed.Now("", feed.Either(old, now).Name))
		}),
		feed.On(func(tx store.ReadTx, old, now *store.VPC) []feed.Request {
			return ofVPC(tx, feed.Either(old, now).Name)
		}),
		feed.On(write.UsageRequests(v1alpha1.UsageOfSubnet)),
		feed.On(func(_ store.ReadTx, old, now *store.Address) []feed.Request {
			subnet := feed.Either(old, now).Subnet
			if subnet == "" {
				return nil // it is of a network outside of every VPC
			}
			return []feed.Request{feed.Later(countsEvery, "", subnet)}
		}),
	)
}

func everything(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for _, subnet := range store.ListSubnets(tx) {
		all = append(all, feed.Now("", subnet.Name))
	}
	return all
}

func ofVPC(tx store.ReadTx, vpc string) []feed.Request {
	var all []feed.Request
	for _, subnet := range store.SubnetsByVPC(tx, vpc) {
		all = append(all, feed.Now("", subnet.Name))
	}
	return all
}

// sameRanges reports whether a change concerns no other subnet.
func sameRanges(a, b *store.Subnet) bool {
	return a.UID == b.UID && a.ShortName == b.ShortName && slices.Equal(a.Prefixes, b.Prefixes)
}
