// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package childtest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/drivers/child"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/killed"
)

// attaching is the job of a process that attaches and detaches until it is killed.
type attaching struct {
	// Node is the path of the node's namespace.
	Node, Dir string
	Spec      ifdriver.Spec
}

// AttachUntilKilled does the work of the processes of KillAttaching. A driver's package has it as
// the test TestAttach_HelperProcess_RunsUntilKilled.
func AttachUntilKilled(t *testing.T, devices child.Devices) {
	t.Helper()
	var job attaching
	if !killed.Working(t, &job) {
		return
	}
	n := Node{
		Namespace: &netnstest.Namespace{Path: job.Node},
		Dir:       job.Dir,
		Underlay:  &ifdriver.Underlay{},
		devices:   devices,
	}
	n.Start(t)
	killed.Began()
	for {
		MustAttach(t, n, job.Spec)
		n.mustDetach(t, job.Spec)
	}
}

// KillAttaching kills daemons in the middle of an attachment or its removal. The next daemon
// removes the remains, or attaches the pod in their place.
func KillAttaching(t *testing.T, devices child.Devices) {
	t.Helper()
	n, _ := NewNode(t, devices)
	pod := netnstest.New(t)
	s := Spec(pod)
	s.Rules = []netif.Rule{{From: netip.MustParsePrefix("192.0.2.7/32"), Table: 100}}
	rules, onNode := pod.Rules(t), n.Links(t)
	began := time.Now()
	MustAttach(t, n, s)
	n.mustDetach(t, s)
	round := time.Since(began)
	again, remains := false, 0
	killed.AtAnyMoment(t, "TestAttach_HelperProcess_RunsUntilKilled", attaching{n.Path, n.Dir, s}, 2*round, func() {
		if len(pod.Links(t)) > 0 {
			remains++
		}
		n.Start(t)
		if again = !again; again {
			MustAttach(t, n, s)
			if _, err := n.Driver.Check(t.Context(), s); err != nil {
				t.Error(err)
			}
		}
		n.mustDetach(t, s)
		if left := append(pod.Links(t), n.Notes(t)...); len(left) != 0 || pod.Rules(t) != rules {
			t.Errorf("%v are left, and %d rules, before %d", left, pod.Rules(t), rules)
		}
		if diff := cmp.Diff(onNode, n.Links(t)); diff != "" {
			t.Errorf("devices of the node (-before +after):\n%s", diff)
		}
	})
	t.Logf("an attachment and its removal take %v; %d processes left an interface", round, remains)
}

func (n Node) mustDetach(t testing.TB, s ifdriver.Spec) {
	t.Helper()
	if err := n.Driver.Detach(t.Context(), s.ContainerID, s.IfName); err != nil {
		t.Fatal(err)
	}
}
