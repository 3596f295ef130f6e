// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node assigns every node an address per family in the default VPC, and releases it when
// the Node object is deleted. The node reaches the VPC's pods from this address.
package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/operator/announce"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/rollcall"
	"github.com/alioth-net/alioth/store"
)

// retryAfter is the time until a refused node is checked again: the release of an address in a full
// VPC requests no nodes.
const retryAfter = 10 * time.Second

// Reconciler applies the decisions of decide.
type Reconciler struct {
	// Live reads from the API server.
	Live    client.Reader
	Store   *store.Store
	Claimer *claim.Claimer
	Events  events.EventRecorder
	// DefaultVPC is the name of the default VPC.
	DefaultVPC string
	// Audit reports addresses that are not believed, each once.
	Audit *announce.NodeAudit
	board announce.Board
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("node", 2, r, r.source(f))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var d decision
	r.Store.View(func(tx store.ReadTx) { d = decide(tx, request.Name, r.DefaultVPC) })
	for _, doubt := range r.board.News(request.NamespacedName, d.uid, d.doubts...) {
		r.Audit.Report(request.Name, doubt.Reason, doubt.Message)
	}
	if err := r.release(ctx, request.Name, d.release); err != nil {
		return ctrl.Result{}, err
	}
	if !d.claim {
		return ctrl.Result{}, nil
	}
	rows, err := r.Claimer.Claim(ctx, d.request, nil)
	if errors.Is(err, claim.ErrUnsettled) || errors.Is(err, claim.ErrHolderGone) {
		return ctrl.Result{}, nil // requested again once the term is settled, or by the node's event
	}
	var refusal *ipam.Error
	if errors.As(err, &refusal) {
		ctrl.LoggerFrom(ctx).
			Info("no address for the node", "node", request.Name, "reason", refusal.Reason, "message", refusal.Message)
		r.warn(d.request.Holder, refusal)
		return ctrl.Result{RequeueAfter: retryAfter}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	ctrl.LoggerFrom(ctx).Info("node has its addresses", "node", request.Name, "address", rows[0].IP)
	return ctrl.Result{}, nil
}

// release deletes addresses once the API server confirms that their node is gone. A
// later Node object of that name is a different node.
func (r *Reconciler) release(ctx context.Context, name string, rows []*store.Address) error {
	if len(rows) == 0 {
		return nil
	}
	living := &corev1.Node{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, living); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get node %s: %w", name, err)
	}
	for _, row := range rows {
		if row.Holder.UID == string(living.UID) {
			continue // the store is a moment behind
		}
		if err := r.Claimer.Release(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) warn(holder store.Holder, refusal *ipam.Error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: holder.Name, UID: types.UID(holder.UID)}}
	r.Events.Eventf(
		node,
		nil,
		corev1.EventTypeWarning,
		refusal.Reason,
		"AssignAddresses",
		"no address in the default VPC: %s",
		refusal.Message,
	)
}

// source requests a node when it or its address changes, and all nodes without an
// address when the default VPC changes.
func (r *Reconciler) source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, everything,
		feed.On(func(_ store.ReadTx, old, now *store.Node) []feed.Request {
			if old != nil && now != nil && old.UID == now.UID && slices.Equal(old.AllAddresses, now.AllAddresses) {
				return nil
			}
			return []feed.Request{feed.Now("", feed.Either(old, now).Name)}
		}),
		feed.On(func(_ store.ReadTx, old, now *store.Address) []feed.Request {
			if address := feed.Either(old, now); address.Holder.Kind == store.HolderNode {
				return []feed.Request{feed.Now("", address.Node)}
			}
			return nil
		}),
		rollcall.OnSettled(r.Claimer.Settled, func(tx store.ReadTx) []feed.Request { return r.lackingIf(tx, r.DefaultVPC) }),
		feed.On(func(tx store.ReadTx, old, now *store.VPC) []feed.Request {
			return r.lackingIf(tx, feed.Either(old, now).Name)
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Subnet) []feed.Request {
			return r.lackingIf(tx, feed.Either(old, now).VPC)
		}),
	)
}

// everything lists all nodes, and the names of deleted nodes that still have addresses.
func everything(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for _, node := range store.ListNodes(tx) {
		all = append(all, feed.Now("", node.Name))
	}
	for address := range store.AllAddresses(tx) {
		if address.Holder.Kind == store.HolderNode && store.GetNode(tx, address.Node) == nil {
			all = append(all, feed.Now("", address.Node))
		}
	}
	return all
}

// lackingIf lists the nodes without a whole set of addresses if the VPC is the
// default one.
func (r *Reconciler) lackingIf(tx store.ReadTx, vpc string) []feed.Request {
	if vpc != r.DefaultVPC {
		return nil
	}
	var all []feed.Request
	for _, node := range store.ListNodes(tx) {
		if decide(tx, node.Name, r.DefaultVPC).claim {
			all = append(all, feed.Now("", node.Name))
		}
	}
	return all
}
