// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// made has a setting and an interface that is new.
const made = "interfaces: [{name: eth1, type: ethernet, mtu: 9000}, {name: d1, type: dummy, mtu: 9000}]"

func onA(p *nmstate.Policy) { p.Spec.Selector = map[string]string{"net": "a"} }

// label changes the label of node n1.
func (c *cluster) label(value string) {
	n := c.nodes["n1"]
	n.Labels = map[string]string{"net": value}
	c.nodes["n1"] = n
}

func (c *cluster) taint(node string, taints ...policy.Taint) {
	n := c.nodes[node]
	n.Taints = taints
	c.nodes[node] = n
}

func TestPolicyUndo_PolicyDeleted_Undone(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(c *cluster)
	}{
		{"it is deleted", func(c *cluster) { delete(c.policies, ref("a")) }},
		{"the node loses the label", func(c *cluster) { c.label("b") }},
		{"the policy selects others", func(c *cluster) {
			c.put("a", made, func(p *nmstate.Policy) { p.Spec.Selector = map[string]string{"net": "b"} })
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, "n1")
			c.put("a", made, onA)
			c.settle()
			tc.end(c)
			c.handle("n1")
			e := c.enactment("n1", "a")
			if e == nil || e.Applied != nil || e.Phase != nmstate.Progressing {
				t.Fatalf("got %s", words(t, e))
			}
			const back = "interfaces: [{name: d1, type: dummy, state: absent, made-by: alioth}, {name: eth1, mtu: 1500, state: up}]"
			same(t, "undoing", e.Undoing, back)
			same(t, "desired state of the node", c.states["n1"].Desired, back)
			c.settle()
			if len(c.enactments) > 0 || len(c.states["n1"].Desired) > 0 {
				t.Errorf("left are %s and %s", words(t, c.enactments), words(t, c.states["n1"].Desired))
			}
			same(t, "the network", c.states["n1"].Current, currentState)
		})
	}
}

func TestPolicyUndo_Failure_StaysWithoutSlot(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", made)
	c.settle()
	c.fails["n1"] = true
	delete(c.policies, ref("a"))
	c.settle()
	c.phase("n1", "a", nmstate.Failing, "FailedToConfigure")
	if e := c.enactment("n1", "a"); e.Undoing == nil || e.Slot.Expires.After(c.now) {
		t.Errorf("got %s", words(t, e))
	}
	c.fails["n1"] = false
	c.settle()
	if len(c.enactments) > 0 {
		t.Errorf("left are %s", words(t, c.enactments))
	}
}

func TestPolicyUndo_KeepSetting_NodeUnchanged(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo, func(p *nmstate.Policy) { p.Keep = true })
	c.settle()
	delete(c.policies, ref("a"))
	c.handle("n1")
	if len(c.enactments) > 0 || len(c.states["n1"].Desired) > 0 {
		t.Errorf("left are %s and %s", words(t, c.enactments), words(t, c.states["n1"].Desired))
	}
	c.settle()
	same(
		t,
		"the network",
		c.states["n1"].Current,
		"interfaces: [{name: eth1, type: ethernet, state: up, mtu: 9000}, {name: eth2, type: ethernet, state: up, mtu: 1500}]",
	)
}

func TestPolicyUndo_NeverApplied_EndsAtOnce(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo, onA)
	c.handle("n1")
	c.label("b")
	c.handle("n1")
	if len(c.enactments) > 0 || c.states["n1"].Desired != nil {
		t.Errorf("left are %s and %s", words(t, c.enactments), words(t, c.states["n1"].Desired))
	}
}

func TestPolicyUndo_NodeTainted_NothingUndone(t *testing.T) {
	c := newCluster(t, "n1", "n2")
	c.put("a", jumbo, func(p *nmstate.Policy) { p.Spec.IgnoreTaints = false })
	c.taint("n2", policy.Taint{Key: "dedicated", Effect: policy.NoSchedule})
	c.settle()
	if c.enactment("n2", "a") != nil {
		t.Error("it is for a node with a taint")
	}
	c.taint("n1", policy.Taint{Key: "dedicated", Effect: policy.NoSchedule})
	c.settle()
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	same(t, "desired state of the node", c.states["n1"].Desired, jumbo)
	if status := c.statuses[ref("a")]; status.Condition != "Ignored" || status.Reason != "NoMatchingNode" {
		t.Errorf("the policy's status is %+v", status)
	}
	c.put("a", made, func(p *nmstate.Policy) { p.Spec.IgnoreTaints = false })
	c.settle()
	same(t, "after a change of the policy", c.states["n1"].Desired, jumbo)
	delete(c.policies, ref("a"))
	c.settle()
	same(t, "the network at the end", c.states["n1"].Current, currentState)
}

func TestPolicyTaint_NotYetApplied_Ended(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo, func(p *nmstate.Policy) { p.Spec.IgnoreTaints = false })
	c.handle("n1")
	c.taint("n1", policy.Taint{Key: "dedicated", Effect: policy.NoSchedule})
	c.handle("n1")
	if len(c.enactments) > 0 {
		t.Errorf("left are %s", words(t, c.enactments))
	}
}

func TestPolicyUndo_SameNameRecreated_BeginsAfterUndo(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", made)
	c.settle()
	delete(c.policies, ref("a"))
	c.put("a", "interfaces: [{name: eth2, mtu: 9000}]")
	c.handle("n1")
	if e := c.enactment("n1", "a"); e.Undoing == nil || e.PolicyUID == c.policies[ref("a")].UID {
		t.Errorf("the predecessor is not undone: %s", words(t, e))
	}
	c.settle()
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	if e := c.enactment("n1", "a"); e.PolicyUID != c.policies[ref("a")].UID {
		t.Errorf("it is that of the predecessor: %s", words(t, e))
	}
	same(
		t,
		"the network",
		c.states["n1"].Current,
		"interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1500}, {name: eth2, type: ethernet, state: up, mtu: 9000}]",
	)
}

func TestPolicyUndo_PolicyReturnsMeanwhile_AppliedAgain(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", made, onA)
	c.settle()
	c.label("b")
	c.handle("n1")
	c.label("a")
	c.handle("n1")
	c.phase("n1", "a", nmstate.Pending, "MaxUnavailableLimitReached")
	c.settle()
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	same(t, "desired state of the node", c.states["n1"].Desired, made)
	delete(c.policies, ref("a"))
	c.settle()
	same(t, "the network at the end", c.states["n1"].Current, currentState)
}

func TestPolicyUndo_FieldsRemoved_Undone(t *testing.T) {
	c := newCluster(t, "n1")
	const old = "interfaces: [{name: eth1, type: ethernet, mtu: 9000}, {name: eth2, mtu: 9000}, {name: d1, type: dummy}]"
	c.put("a", old)
	c.settle()
	c.put("a", jumbo)
	c.handle("n1")
	c.phase("n1", "a", nmstate.Pending, "MaxUnavailableLimitReached")
	same(t, "before it has a slot", c.states["n1"].Desired, old)
	c.roll(ref("a"))
	c.handle("n1")
	same(t, "undoing", c.enactment("n1", "a").Undoing, "interfaces: [{name: d1, type: dummy, state: absent, made-by: alioth}, {name: eth2, mtu: 1500, state: up}]")
	c.settle()
	if e := c.enactment("n1", "a"); e.Undoing != nil || e.Phase != nmstate.Available {
		t.Errorf("got %s", words(t, e))
	}
	same(t, "desired state of the node", c.states["n1"].Desired, jumbo)
	same(
		t,
		"the network",
		c.states["n1"].Current,
		"interfaces: [{name: eth1, type: ethernet, state: up, mtu: 9000}, {name: eth2, type: ethernet, state: up, mtu: 1500}]",
	)
}

// TestPolicyUndo_TwoChangesInRow_BothUndone: the second one begins when it is known how the first one
// went.
func TestPolicyUndo_TwoChangesInRow_BothUndone(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", "interfaces: [{name: d1, type: dummy}, {name: d2, type: dummy}, {name: eth1, mtu: 9000}]")
	c.settle()
	for _, desired := range []string{"interfaces: [{name: d2, type: dummy}, {name: eth1, mtu: 9000}]", jumbo} {
		c.put("a", desired)
		c.handle("n1")
		c.roll(ref("a"))
		c.handle("n1") // the state handler has not seen it
	}
	same(t, "undoing", c.enactment("n1", "a").Undoing, "interfaces: [{name: d1, type: dummy, state: absent, made-by: alioth}]")
	c.settle()
	same(
		t,
		"the network",
		c.states["n1"].Current,
		"interfaces: [{name: eth1, type: ethernet, state: up, mtu: 9000}, {name: eth2, type: ethernet, state: up, mtu: 1500}]",
	)
}

func TestPolicyUndo_InterfaceAdded_RestoredAsBefore(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	c.settle()
	c.put("a", "interfaces: [{name: eth1, type: ethernet, mtu: 9000}, {name: eth2, mtu: 9000}]")
	c.settle()
	same(t, "before", c.enactment("n1", "a").Before, currentState)
	delete(c.policies, ref("a"))
	c.settle()
	same(t, "the network", c.states["n1"].Current, currentState)
}

func TestPolicyUndo_LastOfTwo_OriginalStateRestored(t *testing.T) {
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		c := newCluster(t, "n1")
		c.put("a", made)
		c.settle()
		c.put("b", "interfaces: [{name: eth1, mtu: 8000}, {name: d1, type: dummy, mtu: 8000}]", func(p *nmstate.Policy) { p.Spec.Priority = 1 })
		c.settle()
		same(t, "both", c.states["n1"].Desired, strings.ReplaceAll(made, "9000", "8000"))
		delete(c.policies, ref(order[0]))
		c.settle()
		if words(t, c.states["n1"].Current) == words(t, parsed(t, currentState)) {
			t.Error("what the other one wants is undone")
		}
		delete(c.policies, ref(order[1]))
		c.settle()
		same(t, "the network", c.states["n1"].Current, currentState)
	}
}

func TestPolicyUndo_HardwareGone_Completes(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", made)
	c.settle()
	c.current("interfaces: [{name: eth2, type: ethernet, state: up, mtu: 1500}, {name: d1, type: dummy, state: up, mtu: 9000}]")
	delete(c.policies, ref("a"))
	c.handle("n1")
	e := c.enactment("n1", "a")
	same(t, "undoing", e.Undoing, "interfaces: [{name: d1, type: dummy, state: absent, made-by: alioth}]")
	if !strings.Contains(e.Message, "interfaces[eth1]") {
		t.Errorf("the message is %q", e.Message)
	}
	c.settle()
	same(t, "the network", c.states["n1"].Current, "interfaces: [{name: eth2, type: ethernet, state: up, mtu: 1500}]")
}

func TestPolicyUndo_StateBeforeUnreadable_PolicyStaysApplied(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	c.settle()
	c.enactment("n1", "a").Before = parsed(t, "interfaces: [{mtu: 1500}]")
	delete(c.policies, ref("a"))
	c.settle()
	c.phase("n1", "a", nmstate.Failing, "Refused")
	same(t, "desired state of the node", c.states["n1"].Desired, jumbo)
}

func TestPolicyUndo_StateUnreadable_NotChanged(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	c.handle("n1")
	c.roll(ref("a"))
	c.current("interfaces: [{mtu: 1500}]")
	c.handle("n1")
	c.phase("n1", "a", nmstate.Pending, "Refused")
	if c.handle("n1") || c.states["n1"].Desired != nil {
		t.Errorf("it changes: %s", words(t, c.enactments))
	}
}

// TestPolicyUndo_OthersRemoveMeanwhile_Completes has an undo that fails until somebody
// removes the interface.
func TestPolicyUndo_OthersRemoveMeanwhile_Completes(t *testing.T) {
	c := newCluster(t, "n1")
	c.current("interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1500}, {name: br7, type: linux-bridge, state: down, mtu: 1500}]")
	c.put("a", "interfaces: [{name: br7, mtu: 1400}, {name: eth1, mtu: 1400}]")
	c.settle()
	delete(c.policies, ref("a"))
	c.handle("n1")
	same(t, "undoing", c.enactment("n1", "a").Undoing, "interfaces: [{name: br7, mtu: 1500, state: inactive}, {name: eth1, mtu: 1500, state: up}]")
	c.current("interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1400}]")
	c.handle("n1")
	same(t, "undoing", c.enactment("n1", "a").Undoing, "interfaces: [{name: eth1, mtu: 1500, state: up}]")
	c.settle()
	if len(c.enactments) > 0 {
		t.Errorf("left is %s", words(t, c.enactments))
	}
	same(t, "the network", c.states["n1"].Current, "interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1500}]")
}
