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

// workers is how many nodes the centralized mode works on at once: each pass waits for its
// writes, one after the other.
const workers = 4

// Handler is policyhandler.Handler.
type Handler interface {
	// Pass writes the enactments of a node and its desired state. It returns the time until the
	// result changes by time alone, 0 for never.
	Pass(ctx context.Context, node string) (again time.Duration, err error)
}

// States does the part of the nodes in the centralized mode.
type States struct{ Handler Handler }

// RegisterStates adds the controller.
func RegisterStates(controllers feed.Controllers, f *feed.Feed, s *States) error {
	return controllers.Add("nodenetworkstate", workers, s, feed.NewSource(f, everyNode, mappersOfNodes()...))
}

// Reconcile implements reconcile.Reconciler.
func (s *States) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	again, err := s.Handler.Pass(ctx, request.Name)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("apply policies to node %s: %w", request.Name, err)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// mappersOfNodes request a node when it comes, goes or has other labels or taints, when its
// state or one of its enactments changes, and all nodes when a policy does.
func mappersOfNodes() []feed.Mapper {
	return []feed.Mapper{
		feed.On(func(_ store.ReadTx, old, now *store.Node) []feed.Request {
			if !reselected(old, now) {
				return nil
			}
			return []feed.Request{feed.Now("", feed.Either(old, now).Name)}
		}),
		feed.On(func(_ store.ReadTx, old, now *nmstate.State) []feed.Request {
			return []feed.Request{feed.Now("", feed.Either(old, now).Name)}
		}),
		feed.On(func(_ store.ReadTx, old, now *nmstate.Enactment) []feed.Request {
			return []feed.Request{feed.Now("", feed.Either(old, now).Node)}
		}),
		feed.On(func(tx store.ReadTx, old, now *nmstate.Policy) []feed.Request {
			if !respecified(old, now) && old.Aborted == now.Aborted {
				return nil // only its status, which no node reads
			}
			return everyNode(tx)
		}),
	}
}

// everyNode requests all nodes.
func everyNode(tx store.ReadTx) []feed.Request {
	var all []feed.Request
	for _, node := range store.ListNodes(tx) {
		all = append(all, feed.Now("", node.Name))
	}
	return all
}
