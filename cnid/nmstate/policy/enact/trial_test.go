// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/store/rows/nmstate"
)

const impossible = "interfaces: [{name: eth666, type: ethernet, state: up}]"

// TestPolicy_OneFails_OthersApplied: neither one that comes after it nor one that is
// there already. The policies have nothing to do with each other.
func TestPolicy_OneFails_OthersApplied(t *testing.T) {
	for _, first := range []string{"a-impossible", "z-impossible"} {
		c := newCluster(t, "n1")
		c.impossible["eth666"] = true
		c.put(first, impossible)
		c.settle()
		c.phase("n1", first, nmstate.Failing, "FailedToConfigure")
		c.put("innocent", "interfaces: [{name: d1, type: dummy}]")
		c.settle()
		c.phase("n1", "innocent", nmstate.Available, "SuccessfullyConfigured")
		c.phase("n1", first, nmstate.Failing, "FailedToConfigure")
		if message := c.enactment("n1", first).Message; !strings.Contains(message, "eth666") {
			t.Errorf("the message is %q", message)
		}
		same(t, "desired state of the node", c.states["n1"].Desired, "interfaces: [{name: d1, type: dummy}]")
	}
}

// TestTrial_OnePolicyChanged_FailureAttributedToIt: both policies are about one interface.
func TestTrial_OnePolicyChanged_FailureAttributedToIt(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("bond", "interfaces: [{name: d1, type: dummy, mtu: 9000}]")
	c.settle()
	c.impossible["d1.5"] = true
	c.put("vlan", "interfaces: [{name: d1.5, type: vlan, vlan: {base-iface: d1, id: 5}}]")
	c.settle()
	c.phase("n1", "bond", nmstate.Available, "SuccessfullyConfigured")
	c.phase("n1", "vlan", nmstate.Failing, "FailedToConfigure")
	same(t, "desired state of the node", c.states["n1"].Desired, "interfaces: [{name: d1, type: dummy, mtu: 9000}]")
	c.put("bond", "interfaces: [{name: d1, type: dummy, mtu: 8000}]")
	c.settle()
	c.phase("n1", "bond", nmstate.Available, "SuccessfullyConfigured")
	same(t, "the new generation", c.states["n1"].Desired, "interfaces: [{name: d1, type: dummy, mtu: 8000}]")
}

// TestTrial_GenerationFails_FormerRestored, with the whole policy: what it has besides is
// not applied either.
func TestTrial_GenerationFails_FormerRestored(t *testing.T) {
	c := newCluster(t, "n1")
	const good = "interfaces: [{name: d1, type: dummy, mtu: 9000}, {name: d2, type: dummy}]"
	c.put("a", good, func(p *nmstate.Policy) { p.Spec.Priority = 7 })
	c.settle()
	c.impossible["eth666"] = true
	c.put("a", "interfaces: [{name: d1, type: dummy, mtu: 1400}, {name: eth666}]", func(p *nmstate.Policy) { p.Spec.Priority = 3 })
	c.settle()
	c.phase("n1", "a", nmstate.Failing, "FailedToConfigure")
	same(t, "desired state of the node", c.states["n1"].Desired, good)
	if e := c.enactment("n1", "a"); e.AppliedPriority != 7 || e.Trial.Open || e.Undoing != nil {
		t.Errorf("the enactment is %s", words(t, e))
	}
	if got := words(t, c.states["n1"].Current); !strings.Contains(got, `"mtu":9000,"name":"d1"`) || !strings.Contains(got, `"d2"`) {
		t.Errorf("the network is %s", got)
	}
	delete(c.policies, ref("a"))
	c.settle()
	same(t, "the network at the end", c.states["n1"].Current, currentState)
}

// TestTrial_PolicyFailed_TriedAgain after a pause that grows, or when its interface comes.
func TestTrial_PolicyFailed_TriedAgain(t *testing.T) {
	c := newCluster(t, "n1")
	c.impossible["eth666"] = true
	c.put("a", impossible)
	c.settle()
	for failures, pause := range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute} {
		if again := Node(c.situation("n1")).Again; again.Sub(c.now) != pause {
			t.Errorf("after %d failures the next try is in %s, want %s", failures+1, again.Sub(c.now), pause)
		}
		c.now = c.now.Add(pause - time.Second)
		if c.handle("n1") {
			t.Error("it is tried before the pause is over")
		}
		c.now = c.now.Add(time.Second)
		c.settle()
		if e := c.enactment("n1", "a"); e.Trial.Failures != failures+2 || e.Phase != nmstate.Failing || e.Slot.Expires.After(c.now) {
			t.Errorf("after try %d: %s", failures+2, words(t, e))
		}
	}
	delete(c.impossible, "eth666")
	c.current(currentState + "- {name: eth666, type: ethernet, state: up, mtu: 1500}\n")
	c.settle()
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	if e := c.enactment("n1", "a"); e.Trial.Failures != 0 {
		t.Errorf("left is %s", words(t, e))
	}
}

// TestTrial_OnePartFails_WholePolicyFails: what one policy wants changes together.
func TestTrial_OnePartFails_WholePolicyFails(t *testing.T) {
	c := newCluster(t, "n1")
	c.impossible["eth666"] = true
	c.put("a", "interfaces: [{name: d1, type: dummy}, {name: eth666}]")
	c.put("b", "interfaces: [{name: d2, type: dummy}]")
	c.settle()
	c.phase("n1", "a", nmstate.Failing, "FailedToConfigure")
	c.phase("n1", "b", nmstate.Available, "SuccessfullyConfigured")
	if got := words(t, c.states["n1"].Current); strings.Contains(got, `"d1"`) || !strings.Contains(got, `"d2"`) {
		t.Errorf("the network is %s", got)
	}
}

// TestTrial_UndoFails_OthersApplied has an interface that is gone and can't come back.
func TestTrial_UndoFails_OthersApplied(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	c.settle()
	c.impossible["eth1"] = true
	delete(c.policies, ref("a"))
	c.put("b", "interfaces: [{name: d1, type: dummy}]")
	c.settle()
	c.phase("n1", "a", nmstate.Failing, "FailedToConfigure")
	c.phase("n1", "b", nmstate.Available, "SuccessfullyConfigured")
	delete(c.impossible, "eth1")
	c.settle()
	if c.enactment("n1", "a") != nil {
		t.Error("the undo does not end")
	}
}

// TestTrial_ManualSettingFails_PoliciesApplied.
func TestTrial_ManualSettingFails_PoliciesApplied(t *testing.T) {
	c := newCluster(t, "n1")
	c.impossible["eth666"] = true
	c.states["n1"].Desired = parsed(t, impossible)
	c.put("a", jumbo)
	c.settle()
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	if state := c.states["n1"]; !state.Failing {
		t.Error("what is set by hand has not failed")
	}
}

// TestTrial_EnactmentUnwritable_OthersProceed: what it has stays as it is.
func TestTrial_EnactmentUnwritable_OthersProceed(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	c.settle()
	c.put("a", "interfaces: [{name: eth1, type: ethernet, mtu: 1400}]")
	c.put("b", "interfaces: [{name: d1, type: dummy}]")
	c.put("c", "interfaces: [{name: d2, type: dummy}]")
	s := c.situation("n1")
	s.Stuck = map[nmstate.Reference]bool{ref("a"): true, ref("b"): true}
	changes := Node(s)
	if len(changes.Put) != 1 || changes.Put[0].Policy != ref("c") || changes.Desired != nil {
		t.Errorf("the changes are %s", words(t, changes))
	}
	delete(c.policies, ref("a"))
	s = c.situation("n1")
	s.Stuck = map[nmstate.Reference]bool{ref("a"): true}
	if changes = Node(s); changes.Desired != nil || len(changes.Delete) > 0 {
		t.Errorf("a policy that ends: the changes are %s", words(t, changes))
	}
}

// TestTrial_MatchedInterfaceGone_NotRecreated: somebody else has removed the interface.
func TestTrial_MatchedInterfaceGone_NotRecreated(t *testing.T) {
	c := newCluster(t, "n1")
	const foreign = "- {name: br7, type: linux-bridge, state: up, mtu: 1500}\n"
	c.current(currentState + foreign)
	c.put("a", "interfaces: [{mtu: 1400}]", matching(nmstate.MatchRule{Name: "br7"}))
	c.settle()
	same(t, "the network", c.states["n1"].Current, currentState+strings.Replace(foreign, "1500", "1400", 1))
	c.current(currentState)
	state := *c.states["n1"]
	state.ObservedGeneration = 0 // the state handler sees it first
	c.states["n1"] = &state
	c.settle()
	same(t, "after it was removed", c.states["n1"].Current, currentState)
	delete(c.policies, ref("a"))
	c.settle()
	same(t, "the network at the end", c.states["n1"].Current, currentState)
}
