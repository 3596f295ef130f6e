// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rollcall

import (
	"fmt"
	"time"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/replies"
)

// longSilence is the time until a Ready node without a reply is reported, while VNIs wait for it.
const longSilence = time.Minute

// notifyExcess reports each node whose reply has more VNIs than its quota, and again
// when their number grows.
func (r *Reconciler) notifyExcess() {
	var all []replies.Excess
	r.Store.View(func(tx store.ReadTx) { all = replies.Excessive(tx) })
	now := map[string]int{}
	for _, one := range all {
		now[one.Node] = one.Surplus
		if one.Surplus > r.excess[one.Node] {
			r.Audit.Report(one.Node, v1alpha1.TooManyVNIsReason, fmt.Sprintf(
				"this node's answer lists %d VNIs of deleted VPCs more than its pods can have used: the operator does not wait for these. "+
					"Take the node for broken into: see docs/operate/nodes.md#a-node-with-false-reports",
				one.Surplus,
			))
		}
	}
	r.excess = now
}

// notifySilent reports, once for each call, the Ready nodes that have not replied to it
// for a long time and so block the release of VNIs. It returns the time until the next
// check; 0: no check is due.
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
	if left := longSilence - r.Clock.Now().Sub(r.asked); left > 0 {
		return left
	}
	r.mute = r.call
	for _, name := range names {
		r.Audit.Report(name, v1alpha1.RollCallUnansweredReason, fmt.Sprintf(
			"this node is Ready but has not reported its VNIs for %s, so VNIs of deleted VPCs can't be assigned again: "+
				"check its alioth-cnid; if the daemon has answered, see docs/operate/nodes.md#a-node-with-false-reports", longSilence))
	}
	return 0
}
