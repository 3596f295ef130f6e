// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// same compares a document with one in YAML.
func same(t *testing.T, what string, got map[string]any, want string) {
	t.Helper()
	if expected := parsed(t, want); !policy.Same(got, expected) {
		t.Errorf("%s:\n got %s\nwant %s", what, words(t, got), words(t, expected))
	}
}

const jumbo = "interfaces: [{name: eth1, type: ethernet, mtu: 9000}]"

func TestEnact_SlotWait_AppliedWithSlot(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	c.handle("n1")
	c.phase("n1", "a", nmstate.Pending, "MaxUnavailableLimitReached")
	e := c.enactment("n1", "a")
	same(t, "desired", e.Desired, jumbo)
	if e.Applied != nil || e.Before != nil || c.states["n1"].Desired != nil {
		t.Errorf("it is applied without a slot: %s", words(t, e))
	}
	c.slot(e, nmstate.Slot{Holder: "n1", Expires: c.now.Add(time.Second)})
	c.handle("n1")
	c.phase("n1", "a", nmstate.Progressing, "ConfigurationProgressing")
	e = c.enactment("n1", "a")
	same(t, "applied", e.Applied, jumbo)
	same(t, "before", e.Before, "interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1500}]")
	same(t, "desired state of the node", c.states["n1"].Desired, jumbo)
	same(t, "of policies", c.states["n1"].FromPolicies, jumbo)
}

// TestEnact_PolicyTargets_NodeMustReach once they are applied, and until they end.
func TestEnact_PolicyTargets_NodeMustReach(t *testing.T) {
	reaching := func(targets ...string) func(*nmstate.Policy) {
		return func(p *nmstate.Policy) { p.Spec.Reach, p.Spec.Selector = targets, map[string]string{"net": "a"} }
	}
	c := newCluster(t, "n1")
	want := func(what string, targets ...string) {
		t.Helper()
		if got := c.states["n1"].PolicyReach; !slices.Equal(got, targets) {
			t.Errorf("%s: it has to reach %q, want %q", what, got, targets)
		}
	}
	c.put("a", jumbo, reaching("x", "y:1"))
	c.handle("n1")
	want("without a slot")
	c.put("b", "interfaces: [{name: eth2, type: ethernet, mtu: 9000}]", reaching("z", "x"))
	c.settle()
	want("two policies", "x", "y:1", "z")
	c.put("a", jumbo, reaching("w"))
	c.settle()
	want("others in a new generation", "w", "z", "x")
	c.put("a", jumbo, reaching("w"), func(p *nmstate.Policy) { p.Fault = "spec.reach[0]: no" })
	c.settle()
	want("a policy that can't be", "z", "x")
	var many []string
	for n := range v1beta1.MaxReach {
		many = append(many, "host"+strconv.Itoa(n))
	}
	c.put("a", jumbo, reaching(many...), func(p *nmstate.Policy) { p.Fault = "" })
	c.settle()
	want("too many", many...)
	delete(c.policies, ref("a"))
	c.settle()
	want("the other one is deleted", "z", "x")
	node := c.nodes["n1"]
	node.Labels = nil
	c.nodes["n1"] = node
	c.settle()
	want("the last one is for other nodes")
}

// TestEnact_TargetDown_ItsPolicyBlamed: one that is down after its policy was Available
// keeps no other policy from the node.
func TestEnact_TargetDown_ItsPolicyBlamed(t *testing.T) {
	c := newCluster(t, "n1")
	reaching := func(p *nmstate.Policy) { p.Spec.Reach = []string{"storage:443"} }
	other := func(mtu string) string { return "interfaces: [{name: eth2, type: ethernet, mtu: " + mtu + "}]" }
	c.put("a", jumbo, reaching)
	c.put("b", other("9000"))
	c.settle()
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	c.dead["storage:443"] = true
	c.put("b", other("2000"))
	c.settle()
	c.phase("n1", "b", nmstate.Available, "SuccessfullyConfigured")
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	c.put("c", "interfaces: [{name: eth1, mtu: 9000}, {name: d7, type: dummy}]") // it meets the one with the target
	c.settle()
	c.phase("n1", "c", nmstate.Failing, "FailedToConfigure")
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	c.put("a", "interfaces: [{name: eth1, type: ethernet, mtu: 1400}]")
	c.settle()
	c.phase("n1", "a", nmstate.Failing, "FailedToConfigure")
	if message := c.enactment("n1", "a").Message; !strings.Contains(message, "storage:443") {
		t.Errorf("the message is %q", message)
	}
}

// TestEnact_EarlierVersionTargets_DividedAmongParts: that version has one list for all parts. The
// policies stay as they are, and the list stays for a daemon of that version.
func TestEnact_EarlierVersionTargets_DividedAmongParts(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo, func(p *nmstate.Policy) { p.Spec.Reach = []string{"x"} })
	c.put("b", "interfaces: [{name: eth2, type: ethernet, mtu: 9000}]", func(p *nmstate.Policy) { p.Spec.Reach = []string{"y"} })
	c.settle()
	state := *c.states["n1"]
	divided := state.Parts
	state.Parts = nil
	for _, part := range divided {
		state.Parts = append(state.Parts, nmstate.Part{Paths: part.Paths})
	}
	c.states["n1"] = &state
	c.dead["x"], c.dead["y"] = true, true
	c.settle()
	now := c.states["n1"]
	if want := []nmstate.Part{{Paths: []string{"interfaces[eth1]"}, Reach: []string{"x"}}, {Paths: []string{"interfaces[eth2]"}, Reach: []string{"y"}}}; !slices.EqualFunc(
		now.Parts,
		want,
		nmstate.Part.Equal,
	) ||
		!slices.Equal(now.PolicyReach, []string{"x", "y"}) {
		t.Errorf("the parts are %+v and the list is %q, want %+v and all", now.Parts, now.PolicyReach, want)
	}
	for _, name := range []string{"a", "b"} {
		c.phase("n1", name, nmstate.Available, "SuccessfullyConfigured")
	}
}

func TestEnact_ForeignOrExpiredSlot_Ignored(t *testing.T) {
	for _, slot := range []func(now time.Time) nmstate.Slot{
		func(now time.Time) nmstate.Slot { return nmstate.Slot{Holder: "n1", Expires: now} },
		func(now time.Time) nmstate.Slot { return nmstate.Slot{Holder: "n2", Expires: now.Add(time.Hour)} },
	} {
		c := newCluster(t, "n1")
		c.put("a", jumbo)
		c.handle("n1")
		c.slot(c.enactment("n1", "a"), slot(c.now))
		if c.handle("n1") {
			t.Errorf("it changes: %s", words(t, c.enactments))
		}
	}
}

func TestEnact_StateHandlerUnaware_NoVerdict(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	state := c.states["n1"]
	state.ObservedGeneration, state.Available = state.Generation, true
	c.handle("n1")
	c.roll(ref("a"))
	c.handle("n1")
	c.handle("n1")
	c.phase("n1", "a", nmstate.Progressing, "ConfigurationProgressing")
	c.enforce("n1")
	c.handle("n1")
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
}

func TestEnact_NodeFailed_AvailableLater(t *testing.T) {
	c := newCluster(t, "n1")
	c.fails["n1"] = true
	c.put("a", jumbo)
	c.settle()
	c.phase("n1", "a", nmstate.Failing, "FailedToConfigure")
	if message := c.enactment("n1", "a").Message; message != "the kernel says no" {
		t.Errorf("the message is %q", message)
	}
	c.fails["n1"] = false
	c.now = c.now.Add(longestPause)
	c.settle()
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
}

func TestEnact_RenderFails_AppliedStateKept(t *testing.T) {
	for _, tc := range []struct {
		name, desired string
		change        func(*nmstate.Policy)
		message       string
	}{
		{"a template without a capture", "interfaces: [{name: '{{ capture.base.name }}'}]", func(*nmstate.Policy) {}, "interfaces.0.name"},
		{"an expression", "", func(p *nmstate.Policy) { p.Capture = map[string]string{"base": "interfaces.name=="} }, "capture base"},
		{"a name twice", "interfaces: [{name: eth1}, {name: eth1}]", func(*nmstate.Policy) {}, "interfaces[1].name"},
		{"a document", "", func(p *nmstate.Policy) { p.Fault = "spec.desiredState: expected an object" }, "spec.desiredState"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, "n1")
			c.put("a", jumbo)
			c.settle()
			c.put("a", tc.desired, tc.change)
			c.settle()
			c.phase("n1", "a", nmstate.Failing, "Refused")
			e := c.enactment("n1", "a")
			if !strings.Contains(e.Message, tc.message) || e.PolicyGeneration != 2 {
				t.Errorf("got %q of generation %d, want %q", e.Message, e.PolicyGeneration, tc.message)
			}
			same(t, "applied", e.Applied, jumbo)
			same(t, "desired state of the node", c.states["n1"].Desired, jumbo)
			if status := c.statuses[ref("a")]; status.Condition != "Degraded" || status.Reason != "Refused" {
				t.Errorf("the policy's status is %+v", status)
			}
		})
	}
}

func TestEnact_RefusedAndStateChanges_RenderedAgain(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", "interfaces: [{name: '{{ capture.base.interfaces.0.name }}', mtu: 9000}]", func(p *nmstate.Policy) {
		p.Capture = map[string]string{"base": `interfaces.name=="eth7"`}
	})
	c.settle()
	c.phase("n1", "a", nmstate.Failing, "Refused")
	c.current("interfaces: [{name: eth7, type: ethernet, state: up, mtu: 1500}]")
	c.settle()
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	same(t, "desired state of the node", c.states["n1"].Desired, "interfaces: [{name: eth7, mtu: 9000}]")
}

func TestEnact_SameGeneration_ExpressionsEvaluatedOnce(t *testing.T) {
	c := newCluster(t, "n1")
	capture := func(p *nmstate.Policy) { p.Capture = map[string]string{"base": "interfaces.mtu==1500"} }
	const desired = "interfaces: [{name: '{{ capture.base.interfaces.0.name }}', mtu: 9000}]"
	c.put("a", desired, capture)
	c.settle() // eth1 has no MTU of 1500 any longer
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	same(t, "desired state of the node", c.states["n1"].Desired, "interfaces: [{name: eth1, mtu: 9000}]")
	if e := c.enactment("n1", "a"); len(e.Captured["base"]) == 0 {
		t.Error("the result of the expression is lost")
	}
	c.put("a", desired, capture)
	c.settle()
	same(t, "of the next generation", c.states["n1"].Desired, "interfaces: [{name: eth2, mtu: 9000}]")
}

func TestEnact_MatchRulesWithoutMatch_NothingDesired(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", "interfaces: [{mtu: 9000}]", matching(nmstate.MatchRule{Type: "bond"}))
	c.handle("n1")
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	if message := c.enactment("n1", "a").Message; !strings.Contains(message, "matches") {
		t.Errorf("the message is %q", message)
	}
	c.current("interfaces: [{name: bond1, type: bond, state: up, mtu: 1500}]")
	c.handle("n1")
	c.phase("n1", "a", nmstate.Pending, "MaxUnavailableLimitReached")
	c.settle()
	same(t, "desired state of the node", c.states["n1"].Desired, "interfaces: [{name: bond1, type: bond, mtu: 9000, made-by: others}]")
}

func TestEnact_MatchRules_FollowPresentInterfaces(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", "interfaces: [{mtu: 9000}]", matching(nmstate.MatchRule{Type: "ethernet"}))
	c.settle()
	c.current("interfaces: [{name: eth1, type: ethernet, state: up, mtu: 9000}, {name: eth3, type: ethernet, state: up, mtu: 1500}]")
	c.handle("n1")
	c.phase("n1", "a", nmstate.Pending, "MaxUnavailableLimitReached")
	same(
		t,
		"before it has a slot",
		c.states["n1"].Desired,
		"interfaces: [{name: eth1, type: ethernet, mtu: 9000, made-by: others}, {name: eth2, type: ethernet, mtu: 9000, made-by: others}]",
	)
	c.settle()
	same(
		t,
		"desired state of the node",
		c.states["n1"].Desired,
		"interfaces: [{name: eth1, type: ethernet, mtu: 9000, made-by: others}, {name: eth3, type: ethernet, mtu: 9000, made-by: others}]",
	)
	delete(c.policies, ref("a"))
	c.settle()
	same(
		t,
		"the network at the end",
		c.states["n1"].Current,
		"interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1500}, {name: eth3, type: ethernet, state: up, mtu: 1500}]",
	)
}

func TestEnact_PolicyRemovesItsMatch_StaysRemoved(t *testing.T) {
	c := newCluster(t, "n1")
	c.current("interfaces: [{name: vx1, type: vxlan, state: up, mtu: 1450}]")
	c.put("a", "interfaces: [{state: absent}]", matching(nmstate.MatchRule{Type: "vxlan"}))
	c.settle()
	same(t, "the network", c.states["n1"].Current, "interfaces: []")
	same(t, "desired state of the node", c.states["n1"].Desired, "interfaces: [{name: vx1, type: vxlan, state: absent, made-by: others}]")
	delete(c.policies, ref("a"))
	c.settle()
	same(t, "the network at the end", c.states["n1"].Current, "interfaces: [{name: vx1, type: vxlan, state: up, mtu: 1450}]")
}

func matching(rules ...nmstate.MatchRule) func(*nmstate.Policy) {
	return func(p *nmstate.Policy) { p.Spec.Match = rules }
}

func TestEnact_RolloutAborted_WaitersStopUntilOver(t *testing.T) {
	c := newCluster(t, "n1", "n2", "n3")
	c.fails["n1"], c.fails["n2"], c.fails["n3"] = true, true, true
	c.put("a", jumbo, func(p *nmstate.Policy) { p.Unavailable = "1" })
	c.settle()
	c.phase("n1", "a", nmstate.Failing, "FailedToConfigure")
	c.phase("n2", "a", nmstate.Failing, "FailedToConfigure")
	c.phase("n3", "a", nmstate.Aborted, "ConfigurationAborted")
	if status := c.statuses[ref("a")]; status.Condition != "Degraded" || status.Reason != "ConfigurationAborted" {
		t.Errorf("the policy's status is %+v", status)
	}
	if c.states["n3"].Desired != nil {
		t.Error("a node changed although the roll-out is aborted")
	}
	clear(c.fails)
	c.now = c.now.Add(longestPause)
	c.settle()
	c.phase("n3", "a", nmstate.Available, "SuccessfullyConfigured")
}

func TestEnact_NodeUnmanaged_WaitsWithoutSlot(t *testing.T) {
	c := newCluster(t, "n1", "n2")
	c.states["n1"].Managed = false
	c.put("a", jumbo, func(p *nmstate.Policy) { p.Unavailable = "1" })
	c.settle()
	c.phase("n1", "a", nmstate.Pending, "Unmanaged")
	c.phase("n2", "a", nmstate.Available, "SuccessfullyConfigured")
	if e := c.enactment("n1", "a"); e.Slot != (nmstate.Slot{}) || c.states["n1"].Desired != nil {
		t.Errorf("it has a slot, or a desired state: %s", words(t, e))
	}
	c.manage("n1", true)
	c.settle()
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	c.manage("n1", false)
	delete(c.policies, ref("a"))
	c.settle()
	same(t, "what is left alone", c.states["n1"].Desired, jumbo)
	c.manage("n1", true)
	c.settle()
	same(t, "the network at the end", c.states["n1"].Current, currentState)
}

func TestEnact_StateUnknown_NothingRendered(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	state := c.states["n1"]
	state.Current = nil
	c.handle("n1")
	delete(c.states, "n1")
	c.handle("n1")
	if e := c.enactment("n1", "a"); e.Phase != nmstate.Pending || e.Desired != nil || e.PolicyGeneration != 0 {
		t.Errorf("got %s", words(t, e))
	}
	c.roll(ref("a"))
	if e := c.enactment("n1", "a"); e.Slot != (nmstate.Slot{}) {
		t.Errorf("it has a slot")
	}
}

func TestEnact_DesiredStateUnreadable_NotOverwritten(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	c.states["n1"].Desired = parsed(t, "interfaces: [{mtu: 1500}]")
	c.settle()
	c.phase("n1", "a", nmstate.Pending, "Refused")
	if message := c.enactment("n1", "a").Message; !strings.Contains(message, "interfaces[0].name") {
		t.Errorf("the message is %q", message)
	}
	if got := words(t, c.states["n1"].Desired); got != `{"interfaces":[{"mtu":1500}]}` {
		t.Errorf("it was overwritten: %s", got)
	}
}

func TestEnact_ManualField_WinsAndStays(t *testing.T) {
	c := newCluster(t, "n1")
	c.states["n1"].Desired = parsed(t, "{description: mine, interfaces: [{name: eth1, mtu: 1400}]}")
	c.put("a", "interfaces: [{name: eth1, type: ethernet, mtu: 9000}, {name: eth2, mtu: 9000}]")
	c.settle()
	const want = "interfaces: [{name: eth1, type: ethernet, mtu: 1400}, {name: eth2, mtu: 9000}]"
	same(t, "desired state of the node", c.states["n1"].Desired, want)
	if c.states["n1"].Desired["description"] != "mine" {
		t.Error("the description is lost")
	}
	const lost = "interfaces[eth1].mtu: manual has the field, and not NodeNetworkConfigurationPolicy/a"
	if e := c.enactment("n1", "a"); e.Overruled != lost || c.owners["n1"].Conflict != lost {
		t.Errorf("overruled is %q, the conflict %q, want %q", e.Overruled, c.owners["n1"].Conflict, lost)
	}
	if conflict := c.statuses[ref("a")].Conflict; !strings.Contains(conflict, "n1: "+lost) {
		t.Errorf("the policy's conflict is %q", conflict)
	}
	delete(c.policies, ref("a"))
	c.settle()
	same(t, "what is left", c.states["n1"].Desired, "interfaces: [{name: eth1, mtu: 1400}]")
}

func TestEnact_PolicyFieldRemovedByHand_ComesBack(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	c.settle()
	c.states["n1"].Desired = parsed(t, "interfaces: [{name: eth1, type: ethernet}]")
	c.settle()
	same(t, "desired state of the node", c.states["n1"].Desired, jumbo)
}

func TestEnact_NodeStateRecreated_PoliciesReapplied(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("a", jumbo)
	c.settle()
	c.states["n1"] = newCluster(t, "n1").states["n1"]
	c.settle()
	c.phase("n1", "a", nmstate.Available, "SuccessfullyConfigured")
	same(t, "desired state of the node", c.states["n1"].Desired, jumbo)
}

func TestEnact_StateOwners_Reported(t *testing.T) {
	c := newCluster(t, "n1")
	c.states["n1"].Desired = parsed(t, "interfaces: [{name: eth2, mtu: 1400}]")
	c.put("a", jumbo)
	c.settle()
	list := c.owners["n1"].List
	if len(list) != 2 || list[0] != (policy.Owner{Path: "interfaces[eth1]", Owner: "NodeNetworkConfigurationPolicy/a"}) || list[1].Owner != policy.Manual {
		t.Errorf("owners are %v", list)
	}
	c.fails["n1"] = true
	delete(c.policies, ref("a"))
	c.settle()
	if list := c.owners["n1"].List; list[0].Owner != "NodeNetworkConfigurationPolicy/a" {
		t.Errorf("owners of what is undone are %v", list)
	}
}

// TestEnactment_FormerName_Replaced by one with the present name, and the policy is not
// applied again.
func TestEnactment_FormerName_Replaced(t *testing.T) {
	c := newCluster(t, "n1")
	c.put("y.bonds", "interfaces: [{name: eth1, mtu: 9000}]")
	c.settle()
	c.phase("n1", "y.bonds", nmstate.Available, "SuccessfullyConfigured")
	present := c.enactment("n1", "y.bonds")
	row := *present
	row.Name, row.UID = "n1.y.bonds", c.next()
	row.Slot = nmstate.Slot{Holder: "n1", Expires: c.now.Add(time.Minute)}
	delete(c.enactments, present.Name)
	c.enactments[row.Name] = &row
	desired := c.states["n1"].Generation

	if c.handle("n1"); c.enactments["n1.y.bonds"] == nil || len(c.enactments) != 1 {
		t.Errorf("with a slot that lives: %s, want the former name", words(t, c.enactments))
	}
	c.now = c.now.Add(time.Hour)
	c.lose = func() bool { return len(c.enactments) > 1 } // the deletion
	c.handle("n1")
	if len(c.enactments) != 2 {
		t.Errorf("before the former one is deleted: %s, want both", words(t, c.enactments))
	}
	c.lose = func() bool { return false }
	c.settle()
	c.phase("n1", "y.bonds", nmstate.Available, "SuccessfullyConfigured")
	if got := c.enactment("n1", "y.bonds"); len(c.enactments) != 1 || words(t, got.Applied) != words(t, present.Applied) ||
		words(t, got.Before) != words(t, present.Before) {
		t.Errorf("in the end: %s, want the present name alone", words(t, c.enactments))
	}
	if got := c.states["n1"].Generation; got != desired {
		t.Errorf("the desired state has generation %d, before %d: the policy was applied again", got, desired)
	}
	delete(c.policies, ref("y.bonds"))
	c.settle()
	if len(c.enactments) > 0 {
		t.Errorf("after the policy: %s", words(t, c.enactments))
	}
}
