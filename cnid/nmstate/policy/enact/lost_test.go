// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// drift lets the state handler of a node report parts that it could not repair, with the cause of
// the last try.
func (c *cluster) drift(node, cause string, paths ...string) {
	c.t.Helper()
	state := *c.states[node]
	state.Failing, state.Available, state.Message, state.Failures = len(paths) > 0, len(paths) == 0, cause, nil
	for _, path := range paths {
		state.Failures = append(state.Failures, nmstate.Failure{Path: path, Message: cause})
	}
	state.ResourceVersion = c.next()
	c.states[node] = &state
	for range 10 {
		changed := c.handle(node)
		for one := range c.policies {
			changed = c.roll(one) || changed
		}
		if !changed {
			return
		}
	}
	c.t.Fatalf("the handlers change something again and again: %s", words(c.t, c.enactments))
}

// TestLostPolicy_OnNode_ReportedFailing as long as the node lacks it, and without a new change of the
// node. The policy on the other interface stays as it is.
func TestLostPolicy_OnNode_ReportedFailing(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	c.put("b", "interfaces: [{name: d1, type: dummy}]")
	c.settle()
	generation := c.states["n1"].Generation
	c.now = c.now.Add(time.Hour)
	since := c.now.UTC().Format(time.RFC3339)
	c.drift("n1", "eth1 is gone since 2026-01-02T03:04:05Z", "interfaces[eth1]")
	c.phase("n1", "a", nmstate.Failing, "ConfigurationLost")
	c.phase("n1", "b", nmstate.Available, "SuccessfullyConfigured")
	status := c.statuses[ref("a")]
	if status.Condition != "Degraded" || status.Reason != "ConfigurationLost" || !strings.Contains(status.Message, "n1: since "+since+": ") ||
		!strings.Contains(status.Message, "eth1 is gone") {
		t.Errorf("the policy's status is %+v, want the cause since %s", status, since)
	}
	if other := c.statuses[ref("b")]; other.Condition != "Available" {
		t.Errorf("the status of the other policy is %+v", other)
	}

	written := c.written
	c.now = c.now.Add(time.Minute)
	c.drift("n1", "eth1 is gone since 2026-01-02T03:05:05Z", "interfaces[eth1]")
	if c.written != written+1 || c.statuses[ref("a")] != status { // one of the state handler itself
		t.Errorf("a try that says nothing new: %d writes, and the status %+v", c.written-written-1, c.statuses[ref("a")])
	}
	c.drift("n1", "eth1 is busy", "interfaces[eth1]")
	if got := c.enactment("n1", "a").Message; !strings.Contains(got, "eth1 is busy") {
		t.Errorf("with another cause the message is %q", got)
	}
	if got := c.states["n1"].Generation; got != generation {
		t.Errorf("the desired state has generation %d, before %d: the node changes again", got, generation)
	}
	c.drift("n1", "")
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	if got := c.statuses[ref("a")]; got.Condition != "Available" {
		t.Errorf("after the repair the policy's status is %+v", got)
	}
}

// TestLostPolicy_Rollout_Continues: nodes that lost the policy do not count as failures of the
// roll-out, and need no slot.
func TestLostPolicy_Rollout_Continues(t *testing.T) {
	c := newCluster(t, "n1", "n2", "n3", "n4")
	for _, late := range []string{"n3", "n4"} {
		c.manage(late, false)
	}
	c.put("a", jumbo, func(p *nmstate.Policy) { p.Unavailable = "1" })
	c.settle()
	for _, name := range []string{"n1", "n2"} {
		node := c.nodes[name]
		node.Down = true
		c.nodes[name] = node
		c.drift(name, "eth1 is gone", "interfaces[eth1]")
		c.phase(name, "a", nmstate.Failing, "ConfigurationLost")
	}
	for _, late := range []string{"n3", "n4"} {
		c.manage(late, true)
	}
	for range 20 { // The nodes that lost it can't repair it.
		for _, late := range []string{"n3", "n4"} {
			c.handle(late)
			c.enforce(late)
			c.handle(late)
		}
		c.handle("n1")
		c.handle("n2")
		c.roll(ref("a"))
	}
	for _, late := range []string{"n3", "n4"} {
		c.phase(late, "a", nmstate.Available, "SuccessfullyConfigured")
	}
	if status := c.statuses[ref("a")]; status.Condition != "Degraded" || status.Reason != "ConfigurationLost" {
		t.Errorf("the policy's status is %+v", status)
	}
}

// TestLostPolicy_OtherPolicies_NotBlamed: an unreadable node says nothing about its policies. A failure
// during a change belongs to the policy that changes the node.
func TestLostPolicy_OtherPolicies_NotBlamed(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	c.put("nothing", "interfaces: [{mtu: 9000}]", matching(nmstate.MatchRule{Type: "bond"}))
	c.settle()
	state := *c.states["n1"]
	state.Available, state.Failing, state.Message, state.Failures = false, true, "the node can't be read", nil
	c.states["n1"] = &state
	c.handle("n1")
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	c.enforce("n1")

	c.impossible["eth1.5"] = true
	c.put("b", "interfaces: [{name: eth1.5, type: vlan, vlan: {base-iface: eth1, id: 5}}]")
	for e := c.enactment("n1", "b"); e == nil || e.Phase != nmstate.Failing; e = c.enactment("n1", "b") {
		c.handle("n1")
		c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
		c.enforce("n1")
		c.roll(ref("b"))
	}
	c.settle()
	c.phase("n1", "b", nmstate.Failing, "FailedToConfigure")
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	c.drift("n1", "eth1 is gone", "")
	c.phase("n1", "a", nmstate.Failing, "ConfigurationLost")
	c.phase("n1", "nothing", nmstate.Available, "SuccessfullyConfigured")
}

// TestLostPolicy_RetryUnchanged_StatusKept: only the enactment has the number of tries.
func TestLostPolicy_RetryUnchanged_StatusKept(t *testing.T) {
	c := newCluster(t, "n1")
	c.impossible["eth666"] = true
	c.fault = func(called string) string { return called + " is missing since " + c.now.UTC().Format(time.RFC3339) }
	c.put("a", impossible)
	c.settle()
	status := c.statuses[ref("a")]
	for tries := 2; tries < 5; tries++ {
		c.now = c.now.Add(longestPause)
		c.settle()
		if e := c.enactment("n1", "a"); e.Trial.Failures != tries || c.statuses[ref("a")] != status {
			t.Errorf("after try %d the status is %+v, want %+v", tries, c.statuses[ref("a")], status)
		}
	}
}
