// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package danm makes networks outside of every VPC usable: it checks DanmNets, TenantNetworks and
// ClusterNetworks of both API groups against each other, writes the values from a TenantConfig into
// the status of TenantNetworks, claims their VNIs, counts addresses, and delays the deletion of a
// network while pods use it.
package danm

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// countsEvery bounds how often the figures of one network are written.
const countsEvery = 2 * time.Second

// Reconciler applies the decisions of decide to the networks of one kind in one group.
type Reconciler struct {
	Kind outside.Network
	// Limits apply to each tenant.
	Limits Limits
	// Serving has the kinds of networks that the nodes serve.
	Serving Serving
	// Client writes; its reads come from the informers.
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Store *store.Store
	// Feed notifies other controllers.
	Feed feed.Publisher
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add(Name(r.Kind), 1, r, source(f, r.Kind))
}

// Name returns the name of the controller of a kind.
func Name(kind outside.Network) string { return kind.Name + "." + kind.Group }

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	network := r.Kind.NewObject().(client.Object)
	if err := r.Client.Get(ctx, request.NamespacedName, network); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// Before the first claim, so that no claim or address outlives its network.
	if err := write.AddFinalizer(ctx, r.Client, network); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.carryOut(ctx, network)
}

func (r *Reconciler) carryOut(ctx context.Context, network client.Object) error {
	row := r.Kind.Convert(network)
	d, known, err := r.claim(ctx, row)
	if err != nil || !known {
		return err
	}
	for _, surplus := range d.release {
		if err := r.claims().Release(ctx, surplus.Name, surplus.UID); err != nil {
			return err
		}
		ctrl.LoggerFrom(ctx).Info("VNI released", "network", row.String(), "claim", surplus.Name)
	}
	if d.empty {
		if had, err := write.RemoveFinalizer(ctx, r.Client, network); had || err != nil {
			return err
		}
	}
	d.inSpec = r.isHandwritten(network)
	if err := r.writeStatus(ctx, network, d); err != nil || !d.inSpec || d.profile == nil || r.isRefused(network) {
		return err
	}
	err = r.handBack(ctx, network)
	if apierrors.IsInvalid(err) {
		return r.writeRefusal(ctx, network, err)
	}
	return err
}

// claim decides and claims the number that the decision asks for, until it asks for none. It
// ends, because every round either claims a number or excludes one, unless a client deletes
// every claim at once. known is false if the network was deleted since it was read.
func (r *Reconciler) claim(ctx context.Context, row *multinet.Network) (d decision, known bool, err error) {
	var taken []number
	for {
		if d, known, err = r.decide(row, taken); err != nil || !known {
			return d, known, err
		}
		if d.claim == nil {
			again, err := r.keeps(ctx, row, d)
			if again && err == nil {
				continue
			}
			return d, known, err
		}
		mine, err := r.claimOne(ctx, row, *d.claim)
		switch {
		case err != nil:
			return d, known, fmt.Errorf("claim %s for %s: %w", d.claim, row, err)
		case mine:
			ctrl.LoggerFrom(ctx).Info("VNI claimed", "network", row.String(), "number", d.claim.String())
		default:
			taken = append(taken, *d.claim)
		}
	}
}

// claimOne reports whether the network has the number now. A claim that exists may be its
// own: of an earlier call with a lost reply, or of another operator.
func (r *Reconciler) claimOne(ctx context.Context, row *multinet.Network, n number) (mine bool, err error) {
	object := claimObject(n, row)
	err = r.claims().Create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		return err == nil, err
	}
	return r.adopt(ctx, object)
}

// adopt puts the claim into the store if the API server has it with the same content.
func (r *Reconciler) adopt(ctx context.Context, object *v1alpha1.HostVNIClaim) (mine bool, err error) {
	held := outside.HostVNIClaim.New()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(object), held); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if held.Spec != object.Spec {
		return false, nil
	}
	return true, r.claims().Remember(ctx, held)
}

// keeps reports whether the number in the spec, which the profile would replace, has a claim
// of the network that the store lacks: another operator has chosen it, so it stays. Without
// this look, two operators could replace, and then release, the choice of each other.
func (r *Reconciler) keeps(ctx context.Context, row *multinet.Network, d decision) (bool, error) {
	vniType, vni := row.VNI()
	if d.profile == nil || vni == 0 ||
		vniType == d.profile.vniType && vni == d.profile.vni && row.Parent() == d.profile.device {
		return false, nil
	}
	return r.adopt(ctx, claimObject(number{vniType, vni, row.Parent()}, row))
}

func (r *Reconciler) claims() claim.Numbers { return numbers(r.Client, r.Live, r.Store, r.Feed) }

func numbers(c client.Client, live client.Reader, s *store.Store, publisher feed.Publisher) claim.Numbers {
	return claim.Numbers{Kind: outside.HostVNIClaim.Kind, Client: c, Live: live, Store: s, Feed: publisher}
}

// decide runs the plan, and marks a network that is being deleted in the store in the same
// transaction: an address was either chosen before, and is counted, or is not chosen from
// this network. known is false if the store does not have such a network: its row must not
// be created again, or its event is still to come and requests it again.
func (r *Reconciler) decide(row *multinet.Network, taken []number) (d decision, known bool, err error) {
	if !row.Deleting {
		r.Store.View(func(tx store.ReadTx) { d = r.Serving.judge(tx, row, decide(tx, row, taken, r.Limits)) })
		return d, true, nil
	}
	err = r.Store.Update(func(tx store.Tx) error {
		held := multinet.Get(tx, row.Ref)
		if known = held != nil && held.UID == row.UID; !known {
			return nil
		}
		d = r.Serving.judge(tx, row, decide(tx, row, taken, r.Limits))
		return multinet.Put(tx, row)
	})
	return d, known, err
}
