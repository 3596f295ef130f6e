// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/foreign"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// noting notes the pods of ports that are closed.
type noting struct{ closed []string }

func (n *noting) Lost(plan.Lost) {}

func (n *noting) Closed(c plan.ClosedPort) { n.closed = append(n.closed, c.Pod.Name) }

func (n *noting) Repaired([]finding.Repair) {}

func (n *noting) Missing([]journal.Record) {}

func (n *noting) Check(error, foreign.Traffic, int) {}

func TestReconcileNotify_PortStaysClosed_ReportedOnce(t *testing.T) {
	var noted noting
	n := notifier{observer: &noted}
	one, two := plan.ClosedPort{Pod: journal.Pod{Name: "one"}}, plan.ClosedPort{Pod: journal.Pod{Name: "two"}}
	for _, last := range []outcome{
		{closed: []plan.ClosedPort{one}},
		{closed: []plan.ClosedPort{one, two}},
		{err: unix.EBUSY},
		{closed: []plan.ClosedPort{one}},
		{closed: []plan.ClosedPort{one, two}},
	} {
		n.newlyClosed(last)
	}
	if want := []string{"one", "two", "two"}; !slices.Equal(noted.closed, want) {
		t.Errorf("told of %v, want %v", noted.closed, want)
	}
}
