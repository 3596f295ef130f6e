// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenetwork

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// gather is how long changes of enactments are collected: a pass looks at all nodes, and the
// enactments of many nodes change at once.
const gather = 100 * time.Millisecond

// Rollouts is policyhandler.Rollouts.
type Rollouts interface {
	// Pass grants the slots of a policy and writes its status. It returns the time until the result
	// changes by time alone, 0 for never.
	Pass(ctx context.Context, ref nmstate.Reference) (again time.Duration, err error)
}

// Policies grants slots for the policies of one kind, and writes their status.
type Policies struct {
	Kind     string
	Rollouts Rollouts
}

// RegisterPolicies adds the controller.
func RegisterPolicies(controllers feed.Controllers, f *feed.Feed, p *Policies) error {
	return controllers.Add(p.Kind, 1, p, feed.NewSource(f, p.everything, p.mappers()...))
}

// Reconcile implements reconcile.Reconciler.
func (p *Policies) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	again, err := p.Rollouts.Pass(ctx, nmstate.Reference{Kind: p.Kind, Name: request.Name})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("roll out %s %s: %w", p.Kind, request.Name, err)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// mappers request a policy when it or an enactment of it changes, when nodes come, go, are
// Ready or not, or have other labels or taints, and when it may be its turn on a node because of another policy.
func (p *Policies) mappers() []feed.Mapper {
	return []feed.Mapper{feed.On(p.ofPolicy), feed.On(p.ofEnactment), feed.On(p.ofNode)}
}

// everything requests all policies, and also policies that are gone and have enactments: their
// nodes may be gone too.
func (p *Policies) everything(tx store.ReadTx) []feed.Request {
	all := p.living(tx)
	for row := range nmstate.Enactments(tx) {
		if nmstate.GetPolicy(tx, row.Policy) == nil {
			all = append(all, p.request(0, row.Policy)...)
		}
	}
	return all
}

func (p *Policies) living(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for row := range nmstate.Policies(tx) {
		all = append(all, p.request(0, row.Spec.Reference)...)
	}
	return all
}

func (p *Policies) request(after time.Duration, ref nmstate.Reference) []feed.Request {
	if ref.Kind != p.Kind {
		return nil
	}
	return []feed.Request{feed.Later(after, "", ref.Name)}
}

// ofPolicy requests all policies if the policy is new, gone or has another generation: the order of
// policies on nodes may change.
func (p *Policies) ofPolicy(tx store.ReadTx, old, now *nmstate.Policy) []feed.Request {
	if !respecified(old, now) {
		return p.request(0, now.Spec.Reference)
	}
	return append(p.request(0, feed.Either(old, now).Spec.Reference), p.living(tx)...)
}

// respecified reports whether a policy is new, gone, or has another generation.
func respecified(old, now *nmstate.Policy) bool {
	return old == nil || now == nil || old.UID != now.UID || old.Generation != now.Generation
}

// ofEnactment requests the policy of an enactment. It also requests the policies that wait on its
// node when the enactment is gone, or has another phase or generation.
func (p *Policies) ofEnactment(tx store.ReadTx, old, now *nmstate.Enactment) []feed.Request {
	row := feed.Either(old, now)
	all := p.request(gather, row.Policy)
	if old != nil && now != nil && old.Phase == now.Phase && old.PolicyGeneration == now.PolicyGeneration {
		return all
	}
	for _, other := range nmstate.EnactmentsOnNode(tx, row.Node) {
		if other.Policy != row.Policy && other.Phase == nmstate.Pending {
			all = append(all, p.request(gather, other.Policy)...)
		}
	}
	return all
}

func (p *Policies) ofNode(tx store.ReadTx, old, now *store.Node) []feed.Request {
	if !reselected(old, now) && old.Ready == now.Ready {
		return nil
	}
	return p.everything(tx)
}

// reselected reports whether a node is new or gone, or whether other policies may select it.
func reselected(old, now *store.Node) bool {
	return old == nil || now == nil || old.UID != now.UID || old.Selection != now.Selection
}
