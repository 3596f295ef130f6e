// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package address releases addresses and AttachmentClaims of deleted pods if the node can
// no longer release them itself, and addresses of deleted Services. It deletes addresses
// that do not count for the pod that they name. The daemon of the node releases all others.
package address

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/announce"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/rollcall"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/core"
)

// lookAgain is the wait before a node without an answer is read again: its daemon may have left a
// condition, and the feed has no event for the removal of one.
const lookAgain = 30 * time.Second

// Reconciler applies the decisions of decide.
type Reconciler struct {
	// Live reads from the API server.
	Live    client.Reader
	Store   *store.Store
	Claimer *claim.Claimer
	// Audit reports addresses that do not count.
	Audit *announce.NodeAudit
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("address", 2, r, r.source(f))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var address *store.Address
	var what verb
	r.Store.View(func(tx store.ReadTx) {
		if address = store.GetAddress(tx, request.Name); address != nil {
			what = decide(tx, address, r.Claimer.Settled())
		}
	})
	switch what {
	case forget:
		return ctrl.Result{}, r.Claimer.Release(ctx, address)
	case release:
		switch sure, err := r.confirm(ctx, address); {
		case err != nil:
			return ctrl.Result{}, err
		case !sure:
			return ctrl.Result{RequeueAfter: lookAgain}, nil
		}
		return ctrl.Result{}, r.Claimer.Release(ctx, address)
	case expel:
		return ctrl.Result{}, r.expel(ctx, address)
	case keep:
	}
	return ctrl.Result{}, nil
}

// expel deletes an address that does not count for the pod that it names, and reports the node that
// the address was created for.
func (r *Reconciler) expel(ctx context.Context, address *store.Address) error {
	pod, counts, err := r.counts(ctx, address)
	if err != nil || counts {
		return err
	}
	if err := r.Claimer.Expel(ctx, address); err != nil {
		return err
	}
	holder := address.Holder
	r.Audit.Report(address.Node, v1alpha1.AddressNotOfNodeReason, fmt.Sprintf(
		"Address %s names pod %s/%s (UID %s) on this node, but the pod is %s: the Address was ignored and deleted. "+
			"If the Address was not created by hand, the node may be compromised: see docs/operate/nodes.md#a-node-with-false-reports",
		address.Name, holder.Namespace, holder.Name, holder.UID, pod))
	return nil
}

// counts reports whether an address counts for its pod in the API, since the store may
// be a moment behind. If not, where describes the place of the pod.
func (r *Reconciler) counts(ctx context.Context, address *store.Address) (where string, counts bool, err error) {
	var pod *store.Pod
	r.Store.View(func(tx store.ReadTx) { pod = store.GetPod(tx, address.Holder.UID) })
	if pod == nil {
		return "", true, nil // the event of its deletion has come meanwhile
	}
	object := &corev1.Pod{}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Name}
	if err := r.Live.Get(ctx, key, object); err != nil {
		return "", true, client.IgnoreNotFound(err)
	}
	row, err := core.Pod.Convert(object)
	if err != nil || row == nil || row.UID != address.Holder.UID {
		return "", true, err
	}
	return fmt.Sprintf("%s/%s on node %q", row.Namespace, row.Name, row.Node), row.Holds(address), nil
}

// confirm asks the API server, since the store may be a moment behind and an
// address in use must never be released.
func (r *Reconciler) confirm(ctx context.Context, address *store.Address) (bool, error) {
	if sure, err := holderGone(ctx, r.Live, address.Holder); err != nil || !sure ||
		address.Holder.Kind == store.HolderService {
		return sure, err
	}
	return nodeLetGo(ctx, r.Live, address.Node)
}

// holderGone reports whether a holder is gone from the API server.
func holderGone(ctx context.Context, live client.Reader, holder store.Holder) (bool, error) {
	var object client.Object = &corev1.Pod{}
	if holder.Kind == store.HolderService {
		object = &corev1.Service{}
	}
	key := client.ObjectKey{Namespace: holder.Namespace, Name: holder.Name}
	if err := live.Get(ctx, key, object); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get %s %s: %w", holder.Kind, key, err)
	}
	return string(object.GetUID()) != holder.UID, nil
}

// nodeLetGo reads a node from the API server, and reports whether it is fenced, or without a
// daemon. A daemon attaches no pod before the API has one of its conditions, and writes its
// conditions and its answer again: while one of them exists, the node may hold interfaces of pods.
func nodeLetGo(ctx context.Context, live client.Reader, name string) (bool, error) {
	node := &corev1.Node{}
	err := live.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("get node %s: %w", name, err)
	}
	row, err := core.Node.Convert(node)
	if err != nil || fenced(row) {
		return err == nil, err
	}
	if slices.ContainsFunc(
		node.Status.Conditions,
		func(c corev1.NodeCondition) bool { return v1alpha1.OfDaemon(string(c.Type), c.Reason) },
	) {
		return false, nil
	}
	err = live.Get(ctx, client.ObjectKey{Name: v1alpha1.NodeRollCall(name)}, &v1alpha1.RollCall{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("get the roll call of node %s: %w", name, err)
	}
	return false, nil
}

// source requests an address when it is created, when its pod is created, bound or
// deleted, when its Service is deleted, when its node is deleted or declared out of service,
// and when the answer of the node's daemon is deleted.
func (r *Reconciler) source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f,
		r.undecided,
		feed.On(func(_ store.ReadTx, _, now *store.Address) []feed.Request {
			if now == nil {
				return nil
			}
			return []feed.Request{feed.Now("", now.Name)}
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Pod) []feed.Request {
			if old != nil && now != nil && old.Node == now.Node && !now.Deleting && !now.Terminal {
				return nil
			}
			return of(store.AddressesNaming(tx, feed.Either(old, now).UID))
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Service) []feed.Request {
			if now != nil {
				return nil
			}
			return of(store.AddressesNaming(tx, old.UID))
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Node) []feed.Request {
			if !fenced(now) {
				return nil
			}
			return of(store.AddressesByNode(tx, feed.Either(old, now).Name))
		}),
		onAnswerDeleted(func(tx store.ReadTx, node string) []feed.Request { return of(store.AddressesByNode(tx, node)) }),
		rollcall.OnSettled(r.Claimer.Settled, r.undecided),
	)
}

// onAnswerDeleted makes a Mapper that requests objects of a node when an administrator has
// deleted the answer of its daemon.
func onAnswerDeleted(requests func(tx store.ReadTx, node string) []feed.Request) feed.Mapper {
	return feed.On(func(tx store.ReadTx, old, now *store.RollCall) []feed.Request {
		if now != nil {
			return nil
		}
		node, found := strings.CutPrefix(old.Name, v1alpha1.NodeRollCallPrefix)
		if !found {
			return nil
		}
		return requests(tx, node)
	})
}

// undecided requests the addresses that need work. With many addresses, requests for all would
// delay the work of a restarted operator.
func (r *Reconciler) undecided(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for _, address := range store.ListAddresses(tx) {
		if decide(tx, address, r.Claimer.Settled()) != keep {
			all = append(all, feed.Now("", address.Name))
		}
	}
	return all
}

func of(addresses []*store.Address) []feed.Request {
	var all []feed.Request
	for _, address := range addresses {
		all = append(all, feed.Now("", address.Name))
	}
	return all
}
