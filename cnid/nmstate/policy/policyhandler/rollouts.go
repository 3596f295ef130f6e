// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"golang.org/x/sync/errgroup"

	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/enact"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// atOnce is how many enactments are read from the API server at the same time.
const atOnce = 16

// Rollouts grant slots, and write the status of policies. One process at a time may use
// them: two could let more nodes change than may. Their methods may be called from any
// goroutine, for one policy from one at a time.
type Rollouts struct {
	cfg Config
	api *requests
}

// NewRollouts returns Rollouts.
func NewRollouts(cfg Config) *Rollouts { return &Rollouts{cfg: cfg, api: requestsOf(cfg.API)} }

// Pass permits nodes to change for a policy, and brings its status up to date. Again is when
// time alone changes the result, 0 for never; a change of a node, of a policy or of an
// enactment on a node that has one of the policy needs another pass in any case. It deletes
// enactments of nodes that do not exist, also of a policy that does not exist. An error
// needs another pass later.
func (r *Rollouts) Pass(ctx context.Context, ref nmstate.Reference) (again time.Duration, err error) {
	again, err = r.pass(ctx, ref)
	if isStale(err) {
		r.cfg.Log.Debug("a policy is tried again with newer rows", "policy", ref.String(), "cause", err)
		return retryAfter, nil
	}
	return again, err
}

func (r *Rollouts) pass(ctx context.Context, ref nmstate.Reference) (time.Duration, error) {
	objects, err := r.cfg.Nodes(ctx)
	if err != nil {
		return 0, fmt.Errorf("read nodes: %w", err)
	}
	nodes := r.read(ref, objects)
	var failed several
	var again time.Duration
	if nodes.Policy != nil {
		rolled, err := r.decide(ctx, nodes)
		if err != nil {
			return 0, err
		}
		again = until(rolled.Again, nodes.Now)
		failed.add(r.write(ctx, nodes.Policy, rolled))
	}
	for _, e := range nodes.Enactments {
		if !slices.ContainsFunc(nodes.Nodes, func(n policy.Node) bool { return n.Name == e.Node }) {
			failed.add(r.deleteWithoutNode(ctx, e))
		}
	}
	return again, failed.err()
}

func (r *Rollouts) read(ref nmstate.Reference, objects []corev1.Node) enact.Nodes {
	nodes := enact.Nodes{Now: r.cfg.Clock.Now()}
	for i := range objects {
		nodes.Nodes = append(nodes.Nodes, policyNode(&objects[i]))
	}
	r.cfg.Store.View(func(tx store.ReadTx) {
		nodes.Policy, nodes.Policies = nmstate.GetPolicy(tx, ref), slices.Collect(nmstate.Policies(tx))
		for e := range nmstate.Enactments(tx) {
			if e.Policy == ref {
				nodes.Enactments = append(nodes.Enactments, e)
			} else {
				nodes.Others = append(nodes.Others, e)
			}
		}
	})
	return nodes
}

// decide decides on what the API server has if slots would be granted: the store may lack
// slots that were granted a moment ago, and then more nodes would change than may, or a node
// would have its turn twice.
func (r *Rollouts) decide(ctx context.Context, nodes enact.Nodes) (enact.Rolled, error) {
	rolled := enact.Rollout(nodes)
	if len(rolled.Grant) == 0 {
		return rolled, nil
	}
	fresh, err := r.fresh(ctx, nodes.Enactments)
	if err != nil {
		return enact.Rolled{}, err
	}
	nodes.Enactments = fresh
	if nodes.Policy, err = r.withLastSlot(ctx, nodes.Policy); err != nil {
		return enact.Rolled{}, err
	}
	return enact.Rollout(nodes), nil
}

// withLastSlot returns a policy with the last slot that the API server has.
func (r *Rollouts) withLastSlot(ctx context.Context, row *nmstate.Policy) (*nmstate.Policy, error) {
	object := newPolicy(row.Spec.Reference)
	if object == nil {
		return row, nil
	}
	if err := r.api.Get(ctx, object); err != nil {
		return nil, fmt.Errorf("read the policy %s: %w", row.Spec.Reference, err)
	}
	next := *row
	next.LastSlot = lastSlot(object)
	return &next, nil
}

// fresh reads enactments from the API server.
func (r *Rollouts) fresh(ctx context.Context, rows []*nmstate.Enactment) ([]*nmstate.Enactment, error) {
	fresh := make([]*nmstate.Enactment, len(rows))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, row := range rows {
		group.Go(func() error {
			object := newEnactment(row.Name)
			err := r.api.Get(ctx, object)
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return fmt.Errorf("read the enactment %s: %w", row.Name, err)
			}
			fresh[i], err = nmstateapi.ConvertEnactment(object)
			return err
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(fresh, func(e *nmstate.Enactment) bool { return e == nil }), err
}

func (r *Rollouts) write(ctx context.Context, row *nmstate.Policy, rolled enact.Rolled) error {
	var failed several
	for _, e := range rolled.Release {
		failed.add(r.setSlot(ctx, e, enact.Ended(e.Slot)))
	}
	for _, e := range rolled.Grant {
		failed.add(r.setSlot(ctx, e, rolled.Granted(row, e.Node)))
	}
	failed.add(r.putStatus(ctx, row, rolled.Status, rolled.LastSlot()))
	return failed.err()
}

// setSlot gives an enactment a slot. It fails with a conflict if the enactment is newer than
// the row.
func (r *Rollouts) setSlot(ctx context.Context, row *nmstate.Enactment, slot nmstate.Slot) error {
	object := newEnactment(row.Name)
	object.ResourceVersion = row.ResourceVersion
	// PatchStatus reads from these fields how it has to write the slot.
	object.Status.Policy = &nmstatev1beta1.PolicyReference{Kind: row.Policy.Kind, Name: row.Policy.Name}
	if row.Slot != (nmstate.Slot{}) {
		object.Status.Slot = slotOf(row.Slot)
	}
	if err := kube.PatchStatus(ctx, r.api, object, kube.Set{Field: "slot", Value: slotOf(slot)}); err != nil {
		return fmt.Errorf("write the slot of %s: %w", row.Name, err)
	}
	return nil
}

func slotOf(slot nmstate.Slot) *nmstatev1beta1.Slot {
	return &nmstatev1beta1.Slot{
		Holder: slot.Holder, Expires: metav1.NewMicroTime(slot.Expires), PolicyUID: slot.PolicyUID,
		Generation: slot.Generation,
	}
}

// deleteWithoutNode deletes an enactment if its node does not exist. The list of nodes may be
// older than the node.
func (r *Rollouts) deleteWithoutNode(ctx context.Context, e *nmstate.Enactment) error {
	err := r.api.Get(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.Node}})
	switch {
	case err == nil:
		return stale("node", e.Node)
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read node %s: %w", e.Node, err)
	}
	if err := r.api.Delete(ctx, newEnactment(e.Name), types.UID(e.UID)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the enactment %s of a node that does not exist: %w", e.Name, err)
	}
	return nil
}
