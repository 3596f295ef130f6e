// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenetwork

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

func policyRow(kind, name string, change func(*nmstate.Policy)) *nmstate.Policy {
	row := &nmstate.Policy{Meta: operatortest.Meta("uid-"+kind+"-"+name, 0)}
	row.Spec.Reference = nmstate.Reference{Kind: kind, Name: name}
	if change != nil {
		change(row)
	}
	return row
}

func enactmentRow(node, name string, phase nmstate.Phase) *nmstate.Enactment {
	row := &nmstate.Enactment{
		Name: v1beta1.EnactmentName(node, nmstatev1.NodeNetworkConfigurationPolicyKind, name), Node: node, Phase: phase,
		Policy: nmstate.Reference{Kind: nmstatev1.NodeNetworkConfigurationPolicyKind, Name: name},
	}
	row.Meta = operatortest.Meta("uid-"+row.Name, 0)
	return row
}

func nodeRow(name string, selection uint64) *store.Node {
	return &store.Node{Meta: operatortest.Meta("uid-"+name, 0), Name: name, Selection: selection}
}

// asked returns the names of requests, without repetitions.
func asked(requests []feed.Request) string {
	var names []string
	for _, request := range requests {
		names = append(names, request.Name)
	}
	slices.Sort(names)
	return fmt.Sprint(slices.Compact(names))
}

// cluster has the policies a and b of today's kind and c of the early one, two nodes, and
// enactments on the first of them: b waits there.
func cluster(t *testing.T) *store.Store {
	return operatortest.New(t, nodeRow("n1", 1), nodeRow("n2", 1),
		policyRow(nmstatev1.NodeNetworkConfigurationPolicyKind, "a", nil), policyRow(nmstatev1.NodeNetworkConfigurationPolicyKind, "b", nil),
		policyRow(nmstatev1.NodeNetConfPolicyKind, "c", nil),
		enactmentRow("n1", "a", nmstate.Progressing), enactmentRow("n1", "b", nmstate.Pending))
}

// TestPolicyRequests_PolicyGoneEnactmentsLeft_Requested: nobody else deletes the enactments
// of a node that is gone as well.
func TestPolicyRequests_PolicyGoneEnactmentsLeft_Requested(t *testing.T) {
	p := &Policies{Kind: nmstatev1.NodeNetworkConfigurationPolicyKind}
	operatortest.New(t, enactmentRow("n1", "gone", nmstate.Progressing)).View(func(tx store.ReadTx) {
		if got := asked(p.everything(tx)); got != "[gone]" {
			t.Errorf("at the start: %s", got)
		}
		if got := asked(p.ofNode(tx, nodeRow("n1", 1), nil)); got != "[gone]" {
			t.Errorf("once the node is gone: %s", got)
		}
	})
}

// changes are possible events in the cluster, with the policies and the nodes that each concerns.
func changes() map[string]struct {
	change          feed.Change
	policies, nodes string
} {
	const kind = nmstatev1.NodeNetworkConfigurationPolicyKind
	plain := policyRow(kind, "a", nil)
	next := policyRow(kind, "a", func(p *nmstate.Policy) { p.Generation++ })
	degraded := policyRow(kind, "a", func(p *nmstate.Policy) { p.Degraded = true })
	aborted := policyRow(kind, "a", func(p *nmstate.Policy) { p.Aborted = true })
	other := policyRow(nmstatev1.NodeNetConfPolicyKind, "c", nil)
	slotted := enactmentRow("n1", "a", nmstate.Progressing)
	slotted.Slot = nmstate.Slot{Holder: "n1"}
	return map[string]struct {
		change          feed.Change
		policies, nodes string
	}{
		"a new policy":                  {feed.Change{New: plain}, "[a b]", "[n1 n2]"},
		"a policy is gone":              {feed.Change{Old: plain}, "[a b]", "[n1 n2]"},
		"a new generation":              {feed.Change{Old: plain, New: next}, "[a b]", "[n1 n2]"},
		"a status":                      {feed.Change{Old: plain, New: degraded}, "[a]", "[]"},
		"a policy is aborted":           {feed.Change{Old: plain, New: aborted}, "[a]", "[n1 n2]"},
		"a policy of the other kind":    {feed.Change{New: other}, "[a b]", "[n1 n2]"},
		"a slot":                        {feed.Change{Old: enactmentRow("n1", "a", nmstate.Progressing), New: slotted}, "[a]", "[n1]"},
		"a node has it":                 {feed.Change{Old: slotted, New: enactmentRow("n1", "a", nmstate.Available)}, "[a b]", "[n1]"},
		"an enactment is gone":          {feed.Change{Old: slotted}, "[a b]", "[n1]"},
		"an enactment elsewhere":        {feed.Change{New: enactmentRow("n2", "a", nmstate.Pending)}, "[a]", "[n2]"},
		"a node's state":                {feed.Change{New: &nmstate.State{Meta: operatortest.Meta("state", 0), Name: "n2"}}, "[]", "[n2]"},
		"a new node":                    {feed.Change{New: nodeRow("n2", 1)}, "[a b]", "[n2]"},
		"other labels":                  {feed.Change{Old: nodeRow("n2", 1), New: nodeRow("n2", 2)}, "[a b]", "[n2]"},
		"nothing that policies ask for": {feed.Change{Old: nodeRow("n2", 1), New: nodeRow("n2", 1)}, "[]", "[]"},
	}
}

func TestRequests_Change_ItsPoliciesAndNodes(t *testing.T) {
	p := &Policies{Kind: nmstatev1.NodeNetworkConfigurationPolicyKind}
	for name, c := range changes() {
		t.Run(name, func(t *testing.T) {
			cluster(t).View(func(tx store.ReadTx) {
				var policies, nodes []feed.Request
				for _, mapper := range p.mappers() {
					policies = append(policies, mapper(tx, c.change)...)
				}
				for _, mapper := range mappersOfNodes() {
					nodes = append(nodes, mapper(tx, c.change)...)
				}
				if diff := cmp.Diff([]string{c.policies, c.nodes}, []string{asked(policies), asked(nodes)}); diff != "" {
					t.Errorf("policies and nodes (-want +got):\n%s", diff)
				}
			})
		})
	}
}
