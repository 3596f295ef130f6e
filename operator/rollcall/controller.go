// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollcall asks all nodes for the addresses and VNIs that they use: at the
// beginning of a term, before any is chosen, because the API may have lost claims of
// running sandboxes; and after the deletion of a VPC, before its VNI is released
// (docs/design/010-roll-call.md).
package rollcall

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/announce"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/replies"
)

// patience is how long a term waits for nodes that are Ready.
const patience = 10 * time.Second

// collectFor is how long replies are collected: all nodes reply at about the same time, and each
// examination looks at all replies.
const collectFor = 100 * time.Millisecond

// releaseAgain is the time until a failed release of a VNI is tried again.
const releaseAgain = 10 * time.Second

// Reconciler makes roll calls, reads the replies, and releases VNIs. It belongs to one
// term, which it settles.
type Reconciler struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Store *store.Store
	// Feed notifies other controllers.
	Feed feed.Publisher
	// Audit reports nodes that are not trusted.
	Audit *announce.NodeAudit
	Clock clock.PassiveClock
	// Every is the least time between two calls.
	Every time.Duration

	settled atomic.Bool
	// began is the time of the first call, asked the time of the last call, and rested the time of
	// the last search for claims of deleted VPCs. Only the one worker of the controller uses these.
	began, asked, rested time.Time
	// call is the last call of this term, covered the UIDs of the claims that
	// rested before it.
	call    string
	covered map[string]bool
	// excess is the reported number of VNIs of each node above its quota. mute is the call whose
	// silent nodes were reported.
	excess map[string]int
	mute   string
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("rollcall", 1, r, source(f))
}

// OnSettled makes a Mapper that requests objects once the term is settled. Replies of nodes request
// none: there are as many replies as nodes, and each would request all waiting objects.
func OnSettled(settled func() bool, requests func(tx store.ReadTx) []feed.Request) feed.Mapper {
	return feed.On(func(tx store.ReadTx, old, now *store.RollCall) []feed.Request {
		if feed.Either(old, now).Name != v1alpha1.OperatorRollCall || !settled() {
			return nil
		}
		return requests(tx)
	})
}

// Settled reports whether addresses and VNIs may be chosen in this term.
func (r *Reconciler) Settled() bool { return r.settled.Load() }

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	wait, err := r.ask(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !r.Settled() {
		wait = r.settle(ctx, wait)
	}
	r.notifyExcess()
	wait = sooner(wait, r.notifySilent())
	return ctrl.Result{RequeueAfter: sooner(wait, r.release(ctx))}, nil
}

// sooner returns the shorter of two waits. A wait of 0 has no end.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// ask makes a call if one is due, and returns the time until the next check: 0 to wait
// for a change.
func (r *Reconciler) ask(ctx context.Context) (time.Duration, error) {
	var rest []*store.VNIClaim
	var left time.Duration
	var due bool
	r.Store.View(func(tx store.ReadTx) {
		rest = replies.Resting(tx)
		left, due = r.due(tx, rest)
	})
	if !due || left > 0 {
		return left, nil
	}
	covered := r.confirm(ctx, rest)
	if r.stands() && !r.extends(covered) {
		r.rested = r.Clock.Now()
		return r.Every, nil
	}
	call := rand.Text()
	if err := r.write(ctx, call); err != nil {
		return 0, err
	}
	r.call, r.covered, r.asked = call, covered, r.Clock.Now()
	if r.began.IsZero() {
		r.began = r.asked
	}
	if len(rest) > 0 {
		r.rested = r.asked
	}
	ctrl.LoggerFrom(ctx).Info("started a roll call of all nodes", "call", call, "restingVNIs", len(covered))
	return 0, nil
}

// stands reports whether the API still has the last call of this term.
func (r *Reconciler) stands() bool {
	var standing *store.RollCall
	r.Store.View(func(tx store.ReadTx) { standing = store.GetRollCall(tx, v1alpha1.OperatorRollCall) })
	return r.call != "" && standing != nil && standing.Call == r.call
}

// extends reports whether a call would cover a claim that the last call does not cover. It need
// not: the VPC of a claim without a row may exist, and be left out because it can't be read.
func (r *Reconciler) extends(covered map[string]bool) bool {
	for uid := range covered {
		if !r.covered[uid] {
			return true
		}
	}
	return false
}

// due reports whether a call is due, and the time until then: the first one of the term, one for
// claims that no call covers, and one to replace a pending call that was overwritten or removed.
func (r *Reconciler) due(tx store.ReadTx, rest []*store.VNIClaim) (left time.Duration, due bool) {
	if r.call == "" {
		return 0, true
	}
	for _, claim := range rest {
		if !r.covered[claim.UID] {
			return r.Every - r.Clock.Now().Sub(r.rested), true
		}
	}
	if r.Settled() && len(rest) == 0 {
		return 0, false
	}
	if standing := store.GetRollCall(tx, v1alpha1.OperatorRollCall); standing == nil || standing.Call != r.call {
		return r.Every - r.Clock.Now().Sub(r.asked), true
	}
	return 0, false
}

// confirm omits claims whose VPC exists in the API: the store may be a moment behind, or lack
// a VPC that can't be read. A deleted VPC never comes back. A claim whose VPC the API server
// can't read waits for a later call: the term must not wait for it.
func (r *Reconciler) confirm(ctx context.Context, rest []*store.VNIClaim) (covered map[string]bool) {
	covered = map[string]bool{}
	for _, claim := range rest {
		living := &v1alpha1.VPC{}
		if err := r.Live.Get(ctx, client.ObjectKey{Name: claim.VPC}, living); client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).
				Error(err, "can't read the VPC of a VNI that may be released; trying again", "vpc", claim.VPC, "vni", claim.VNI)
			continue
		}
		if string(living.UID) != claim.VPCUID {
			covered[claim.UID] = true
		}
	}
	return covered
}

func (r *Reconciler) write(ctx context.Context, call string) error {
	object := &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OperatorRollCall}}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(object), object)
	object.Spec.Call = call
	switch {
	case apierrors.IsNotFound(err):
		err = r.Client.Create(ctx, object)
	case err == nil:
		err = r.Client.Update(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("ask all nodes what they hold: %w", err)
	}
	return nil
}

// settle settles the term once every known node that is Ready has replied, or has had
// enough time. It returns the time until the next check.
func (r *Reconciler) settle(ctx context.Context, wait time.Duration) time.Duration {
	var names []string
	var standing *store.RollCall
	r.Store.View(func(tx store.ReadTx) {
		names = replies.Silent(tx, r.call, true)
		standing = store.GetRollCall(tx, v1alpha1.OperatorRollCall)
	})
	left := patience - r.Clock.Now().Sub(r.began)
	if len(names) > 0 && left > 0 {
		if wait > 0 {
			return min(wait, left)
		}
		return left
	}
	log := ctrl.LoggerFrom(ctx)
	if len(names) > 0 {
		log.Info("continuing without the answers of Ready nodes: check their daemons", "nodes", strings.Join(names, ", "))
	}
	r.settled.Store(true)
	log.Info("the term is settled: addresses and VNIs may be chosen")
	if standing == nil {
		standing = &store.RollCall{Name: v1alpha1.OperatorRollCall, Call: r.call}
	}
	r.Feed.Publish(feed.Change{Old: standing, New: standing})
	return wait
}

// release deletes the claims whose VNIs no node uses any more. It returns the time until a claim
// that can't be deleted is tried again. It does not return an error for such a claim, because the
// controller would then pause, and delay the next roll call with the VNIs of others.
func (r *Reconciler) release(ctx context.Context) (again time.Duration) {
	var claims []*store.VNIClaim
	r.Store.View(func(tx store.ReadTx) { claims = replies.Released(tx, r.call, r.covered) })
	log := ctrl.LoggerFrom(ctx)
	for _, claim := range claims {
		object := &v1alpha1.VNIClaim{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.VNIClaimName(claim.VNI)}}
		uid := types.UID(claim.UID)
		err := r.Client.Delete(ctx, object, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			log.Error(err, "can't release a VNI; trying again", "vpc", claim.VPC, "vni", claim.VNI)
			again = releaseAgain
			continue
		}
		log.Info("VNI released", "vpc", claim.VPC, "vni", claim.VNI)
	}
	return again
}

// source requests the controller after each change that calls, replies, or the release of VNIs
// depend on.
func source(f *feed.Feed) *feed.Source {
	all := []feed.Request{feed.Now("", v1alpha1.OperatorRollCall)}
	return feed.NewSource(f,
		func(store.ReadTx) []feed.Request { return all },
		feed.On(func(_ store.ReadTx, old, now *store.RollCall) []feed.Request {
			if feed.Either(old, now).Name == v1alpha1.OperatorRollCall {
				return all
			}
			return []feed.Request{feed.Later(collectFor, "", v1alpha1.OperatorRollCall)}
		}),
		feed.On(func(_ store.ReadTx, _, _ *store.VNIClaim) []feed.Request { return all }),
		feed.On(func(_ store.ReadTx, old, now *store.VPC) []feed.Request {
			if old != nil && now != nil {
				return nil
			}
			return all
		}),
		feed.On(func(_ store.ReadTx, old, now *store.Node) []feed.Request {
			if old != nil && now != nil && old.UID == now.UID && old.Ready == now.Ready && old.OutOfService == now.OutOfService {
				return nil
			}
			return all
		}),
		feed.On(func(tx store.ReadTx, old, now *store.Address) []feed.Request {
			if now != nil || store.GetVPC(tx, old.VPC) != nil {
				return nil
			}
			return all
		}),
	)
}
