// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

var noon = time.Unix(1000, 0)

// rolloutOf returns a policy of generation 1 with nodes n1, n2 ... and an enactment of each phase
// there. The phase "" means that the node lacks an enactment.
func rolloutOf(limit nmstate.Unavailable, phases ...nmstate.Phase) Nodes {
	row := &nmstate.Policy{Meta: store.Meta{UID: "u", Generation: 1}, Unavailable: limit}
	row.Spec = nmstate.PolicySpec{Reference: ref("b"), UID: "u", Generation: 1, IgnoreTaints: true}
	n := Nodes{Policy: row, Policies: []*nmstate.Policy{row}, Now: noon}
	for i, phase := range phases {
		node := "n" + strconv.Itoa(i+1)
		n.Nodes = append(n.Nodes, policy.Node{Name: node})
		if phase != "" {
			n.Enactments = append(n.Enactments, enactmentOf(row, node, phase))
		}
	}
	return n
}

func enactmentOf(row *nmstate.Policy, node string, phase nmstate.Phase) *nmstate.Enactment {
	e := &nmstate.Enactment{
		Name:             node + "." + row.Spec.Name,
		Node:             node,
		Policy:           row.Spec.Reference,
		PolicyUID:        row.UID,
		PolicyGeneration: row.Generation,
		Phase:            phase,
	}
	switch phase {
	case nmstate.Pending:
		e.Reason = "MaxUnavailableLimitReached"
	case nmstate.Failing:
		e.Reason, e.Message = "FailedToConfigure", "the kernel says no"
		e.Slot = nmstate.Slot{Holder: node, PolicyUID: row.UID, Generation: row.Generation} // it had one
	}
	return e
}

func nodesOf(list []*nmstate.Enactment) string {
	var names []string
	for _, e := range list {
		names = append(names, e.Node)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (n Nodes) slot(node int, end time.Duration) Nodes {
	e := n.Enactments[node]
	e.Slot = nmstate.Slot{Holder: e.Node, Expires: n.Now.Add(end), PolicyUID: e.PolicyUID, Generation: e.PolicyGeneration}
	return n
}

const (
	pending     = nmstate.Pending
	progressing = nmstate.Progressing
	available   = nmstate.Available
	failing     = nmstate.Failing
	aborted     = nmstate.Aborted
)

func TestRollout_Slots_GrantedAndReleased(t *testing.T) {
	former := rolloutOf("2", pending, pending, pending).slot(0, time.Minute)
	former.Enactments[0].PolicyUID = "t"
	older := rolloutOf("2", available, pending).slot(0, time.Minute)
	older.Enactments[0].PolicyGeneration = 0
	unmanaged := rolloutOf("1", pending, pending)
	unmanaged.Enactments[0].Reason = "Unmanaged"
	forged := rolloutOf("1", failing, failing, pending)
	forged.Enactments[0].Slot, forged.Enactments[1].Slot.Generation = nmstate.Slot{}, 7
	upgraded := rolloutOf("1", failing, failing, pending)
	for _, e := range upgraded.Enactments[:2] {
		e.Slot = nmstate.Slot{Holder: e.Node}
	}
	down := rolloutOf("1", progressing, pending).slot(0, 0)
	ready := rolloutOf("1", available, pending).slot(0, 0)
	down.Nodes[0].Down, ready.Nodes[0].Down = true, true
	turn := rolloutOf("1", pending, pending)
	turn.Policy.LastSlot = "n1"
	for _, tc := range []struct {
		name           string
		n              Nodes
		grant, release string
		again          time.Duration
	}{
		{"as many as may", rolloutOf("2", pending, pending, pending), "n1 n2", "", 0},
		{"a node that waits with a slot keeps it", rolloutOf("1", pending, pending).slot(0, time.Minute), "", "", time.Minute},
		{"a node that changes keeps its slot", rolloutOf("2", progressing, pending, pending).slot(0, time.Minute), "n2", "", time.Minute},
		{"a slot has expired", rolloutOf("1", progressing, pending).slot(0, 0), "n2", "", 0},
		{"one is done, whose slot counts until it is released", rolloutOf("1", available, pending).slot(0, time.Minute), "", "n1", time.Minute},
		{"one is done after its slot expired", rolloutOf("1", available, pending).slot(0, 0), "n2", "", 0},
		{"one failed", rolloutOf("2", failing, pending, pending).slot(0, time.Minute), "n2", "n1", time.Minute},
		{"one was aborted with a slot", rolloutOf("1", aborted).slot(0, time.Minute), "", "n1", 0},
		{"as many failed as may, with their slots", rolloutOf("2", failing, failing, pending).slot(0, time.Minute).slot(1, time.Hour), "", "n1 n2", time.Minute},
		{"as many failed as may, one with its slot", rolloutOf("2", failing, failing, pending).slot(1, time.Minute), "n3", "n2", time.Minute},
		{"too many failed", rolloutOf("1", failing, failing, pending), "", "", 0},
		{"one says that it failed, without a slot", forged, "n3", "", 0},
		{"those that failed began with an earlier version", upgraded, "", "", 0},
		{"one is not Ready since it began", down, "", "", 0},
		{"one is not Ready and has what it should have", ready, "n2", "", 0},
		{"one had the last slot", turn, "n2", "", 0},
		{"the slot of a former policy of that name", former, "n2", "", time.Minute},
		{"the slot of an older generation", older, "n2", "", time.Minute},
		{"a node that is not managed", unmanaged, "n2", "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Rollout(tc.n)
			if nodesOf(got.Grant) != tc.grant || nodesOf(got.Release) != tc.release {
				t.Errorf("granted to %q, released %q, want %q and %q", nodesOf(got.Grant), nodesOf(got.Release), tc.grant, tc.release)
			}
			var again time.Time
			if tc.again > 0 {
				again = noon.Add(tc.again)
			}
			if !got.Again.Equal(again) || !got.Expires.Equal(noon.Add(SlotTime)) {
				t.Errorf("again at %v, expiry %v, want %v and %v", got.Again, got.Expires, again, noon.Add(SlotTime))
			}
		})
	}
}

func TestRollout_SeveralPolicies_FirstOneBegins(t *testing.T) {
	for _, tc := range []struct {
		name   string
		other  string
		change func(*nmstate.Policy)
		phase  nmstate.Phase
		grant  string
	}{
		{"it waits", "a", nil, pending, "n2"},
		{"it changes", "a", nil, progressing, "n2"},
		{"it is done", "a", nil, available, "n1 n2"},
		{"it failed", "a", nil, failing, "n1 n2"},
		{"it was aborted", "a", nil, aborted, "n1 n2"},
		{"its name comes later", "c", nil, pending, "n1 n2"},
		{"its priority is higher", "c", func(p *nmstate.Policy) { p.Spec.Priority = 1 }, pending, "n2"},
		{"its priority is lower", "a", func(p *nmstate.Policy) { p.Spec.Priority = -1 }, pending, "n1 n2"},
		{"it is for other nodes", "a", func(p *nmstate.Policy) { p.Spec.Selector = map[string]string{"a": "b"} }, pending, "n1 n2"},
		{"it is not rendered yet", "a", func(p *nmstate.Policy) { p.Generation = 2 }, available, "n2"},
		{"it is the successor of one that ends", "a", func(p *nmstate.Policy) { p.UID = "new" }, progressing, "n1 n2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := rolloutOf("100%", pending, pending, "")
			other := &nmstate.Policy{Meta: store.Meta{UID: "v", Generation: 1}}
			other.Spec = nmstate.PolicySpec{Reference: ref(tc.other), IgnoreTaints: true}
			n.Others = []*nmstate.Enactment{enactmentOf(other, "n1", tc.phase), enactmentOf(other, "n2", available)}
			if tc.change != nil {
				tc.change(other)
			}
			n.Others[1].PolicyGeneration, n.Others[1].PolicyUID = other.Generation, other.UID
			n.Policies = append(n.Policies, other)
			if got := nodesOf(Rollout(n).Grant); got != tc.grant {
				t.Errorf("granted to %q, want %q", got, tc.grant)
			}
		})
	}
}

func TestRollout_EarlierPolicyWithoutEnactment_Waits(t *testing.T) {
	n := rolloutOf("100%", pending)
	other := &nmstate.Policy{Meta: store.Meta{UID: "v", Generation: 1}}
	other.Spec = nmstate.PolicySpec{Reference: ref("a"), IgnoreTaints: true}
	n.Policies = append(n.Policies, other)
	if got := Rollout(n).Grant; len(got) > 0 {
		t.Errorf("granted to %q", nodesOf(got))
	}
}

func TestPolicyStatus_Nodes_Counted(t *testing.T) {
	refused := rolloutOf("2", failing, available)
	refused.Enactments[0].Reason = "Refused"
	elsewhere := rolloutOf("", available)
	elsewhere.Policy.Spec.Selector = map[string]string{"a": "b"}
	older := rolloutOf("", available, available)
	older.Enactments[1].PolicyGeneration = 0
	unreadable := rolloutOf("many", available)
	gone := rolloutOf("1", progressing, pending).slot(0, 0)
	gone.Nodes[0].Down = true
	overruled := rolloutOf("", available)
	overruled.Enactments[0].Overruled = "interfaces[eth1].mtu: x has the field, and not y"
	for _, tc := range []struct {
		name string
		n    Nodes
		want Status
	}{
		{"no node", elsewhere, Status{Condition: "Ignored", Reason: "NoMatchingNode", Message: "The policy is for no node."}},
		{"all have it", rolloutOf("", available, available), Status{Condition: "Available", Reason: "SuccessfullyConfigured", Message: "2 of 2 nodes configured."}},
		{"some change and wait", rolloutOf("", available, progressing, pending).slot(1, time.Minute), Status{Condition: "Progressing", Reason: "ConfigurationProgressing", Message: "1 of 3 nodes configured, 1 changing, 1 waiting.", Changing: 1}},
		{"one has no enactment yet", rolloutOf("", available, ""), Status{Condition: "Progressing", Reason: "ConfigurationProgressing", Message: "1 of 2 nodes configured, 1 waiting."}},
		{"one is of an older generation", older, Status{Condition: "Progressing", Reason: "ConfigurationProgressing", Message: "1 of 2 nodes configured, 1 waiting."}},
		{"one failed", rolloutOf("2", failing, pending), Status{Condition: "Degraded", Reason: "FailedToConfigure", Message: "0 of 2 nodes configured, 1 waiting, 1 failed. n1: the kernel says no."}},
		{"one refused", refused, Status{Condition: "Degraded", Reason: "Refused", Message: "1 of 2 nodes configured, 1 failed. n1: the kernel says no."}},
		{"too many failed", rolloutOf("1", failing, failing, aborted), Status{Condition: "Degraded", Reason: "ConfigurationAborted", Message: "0 of 3 nodes configured, 2 failed, 1 aborted. n1: the kernel says no. n2: the kernel says no."}},
		{"one is not Ready", gone, Status{Condition: "Progressing", Reason: "ConfigurationProgressing", Message: "0 of 2 nodes configured, 1 changing, 1 waiting. Nodes that are not Ready since they began: 1. They count as nodes that change."}},
		{"too many failed, and none is left", rolloutOf("1", failing, available), Status{Condition: "Degraded", Reason: "FailedToConfigure", Message: "1 of 2 nodes configured, 1 failed. n1: the kernel says no."}},
		{"many failed", rolloutOf("1", failing, failing, failing, failing, failing), Status{Condition: "Degraded", Reason: "FailedToConfigure", Message: "0 of 5 nodes configured, 5 failed. n1: the kernel says no. n2: the kernel says no. n3: the kernel says no. And 2 more."}},
		{"a limit that can't be read", unreadable, Status{Condition: "Available", Reason: "SuccessfullyConfigured", Message: `1 of 1 nodes configured. The default holds: maxUnavailable: "many" is no number and no percentage; use for example 3 or 50%.`}},
		{"a conflict", overruled, Status{Condition: "Available", Reason: "SuccessfullyConfigured", Message: "1 of 1 nodes configured.", Conflict: "n1: interfaces[eth1].mtu: x has the field, and not y."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Rollout(tc.n).Status; got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestPolicyMessages_Long_Bounded(t *testing.T) {
	n := rolloutOf("1", failing, failing)
	for _, e := range n.Enactments {
		e.Message = strings.Repeat("ä", 10000)
		e.Overruled = e.Message
	}
	if got := Rollout(n).Status; len(got.Message) > 1024 || len(got.Conflict) > 1024 || !strings.Contains(got.Message, "...") {
		t.Errorf("got %d and %d bytes", len(got.Message), len(got.Conflict))
	}
	texts := make([]string, 100)
	for i := range texts {
		texts[i] = "interfaces[eth1].mtu"
	}
	if got := cut(texts); len(got) > maxText || !strings.HasSuffix(got, "; and more") {
		t.Errorf("got %q", got)
	}
}
