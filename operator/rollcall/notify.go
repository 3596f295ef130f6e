// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rollcall

import (
	"fmt"
	"time"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/replies"
)

// longSilence is after how long it is told of a node that is Ready and does not answer
// while VNIs wait for it.
const longSilence = time.Minute

// notifyExcess tells of each node that begins to hold more VNIs than is believed, and
// when it holds more still.
func (r *Reconciler) notifyExcess() {
	var all []replies.Excess
	r.Store.View(func(tx store.ReadTx) { all = replies.Excessive(tx) })
	now := map[string]int{}
	for _, one := range all {
		now[one.Node] = one.Surplus
		if one.Surplus > r.excess[one.Node] {
			r.Distrust.Report(one.Node, v1alpha1.TooManyVNIsReason, fmt.Sprintf(
				"this node's answer lists %d VNIs of deleted VPCs more than its pods can have used: the operator does not wait for these. "+
					"Take the node for broken into: see \"A node that is not believed\" in docs/operations.md", one.Surplus))
		}
	}
	r.excess = now
}

// notifySilent tells once of each call which nodes are Ready, have not answered it for
// long, and keep VNIs from being released so. It returns when to look again; 0: not by
// the clock.
func (r *Reconciler) notifySilent() time.Duration {
	if len(r.covered) == 0 || r.mute == r.call {
		return 0
	}
	var names []string
	r.Store.View(func(tx store.ReadTx) {
		if len(replies.Resting(tx)) > 0 {
			names = replies.Silent(tx, r.call, true)
		}
	})
	if len(names) == 0 {
		return 0
	}
	if left := longSilence - r.Now().Sub(r.asked); left > 0 {
		return left
	}
	r.mute = r.call
	for _, name := range names {
		r.Distrust.Report(name, v1alpha1.RollCallUnansweredReason, fmt.Sprintf(
			"this node is Ready but has not reported its VNIs for %s, so VNIs of deleted VPCs can't be assigned again: "+
				"check its alioth-cnid; if the daemon has answered, see \"A node that is not believed\" in docs/operations.md", longSilence))
	}
	return 0
}
