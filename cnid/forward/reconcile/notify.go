// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"log/slog"

	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/foreign"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// Observer is notified of the results of passes. Its methods must not block.
type Observer interface {
	// Lost is called for an attachment that has lost its addresses, once for each
	// reason.
	Lost(plan.Lost)
	// Closed is called once for a port of the node that a running pod does not have.
	Closed(plan.ClosedPort)
	// Repaired is called with objects that others have deleted or changed, and that are
	// repaired.
	Repaired(list []finding.Repair)
	// Missing is called with the attachments whose device is gone.
	Missing(list []journal.Record)
	// Check is called at the times of problem checks on a programmed node: failure is
	// the error of the last pass, or nil, traffic the traffic that the host must let
	// through, and mtu the MTU of the node's network for pods, in bytes.
	Check(failure error, traffic foreign.Traffic, mtu int)
}

// notifier notifies an observer.
type notifier struct {
	observer Observer
	metrics  *Metrics
	log      *slog.Logger
	// lost has the reasons that the observer was notified of, by device. closed has the
	// ports that it was notified of.
	lost   map[int]string
	closed map[plan.ClosedPort]bool
}

// newlyLost notifies of attachments that are newly lost.
func (n *notifier) newlyLost(lost []plan.Lost) {
	now := map[int]string{}
	for _, l := range lost {
		index := l.Record.Device.HostIfindex
		now[index] = l.Reason
		if n.lost[index] != l.Reason {
			n.observer.Lost(l)
		}
	}
	n.lost = now
}

// newlyClosed notifies of ports that are newly closed to a pod, unless the pass failed
// before it read them.
func (n *notifier) newlyClosed(last outcome) {
	if last.err != nil {
		return
	}
	now := map[plan.ClosedPort]bool{}
	for _, c := range last.closed {
		now[c] = true
		if !n.closed[c] {
			n.observer.Closed(c)
		}
	}
	n.closed = now
}

// repaired notifies of repairs, and counts them.
func (n *notifier) repaired(list []finding.Repair) {
	if len(list) == 0 {
		return
	}
	for _, r := range list {
		n.metrics.Repaired(r.Kind)
	}
	n.log.Warn("repaired what others had changed", "repairs", list)
	n.observer.Repaired(list)
}
