// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// parsed reads a state document.
func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var value map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

func words(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// copied is a document as it comes back from the API.
func copied(t *testing.T, value map[string]any) map[string]any {
	t.Helper()
	var next map[string]any
	if err := json.Unmarshal([]byte(words(t, value)), &next); err != nil {
		t.Fatal(err)
	}
	return next
}

// cluster is the API in memory, with what handlers and operator do to it.
type cluster struct {
	t          *testing.T
	now        time.Time
	nodes      map[string]policy.Node
	policies   map[nmstate.Reference]*nmstate.Policy
	enactments map[string]*nmstate.Enactment
	states     map[string]*nmstate.State
	owners     map[string]Owners
	statuses   map[nmstate.Reference]Status
	// impossible are the interfaces that no node can have, and dead the targets that no node
	// reaches.
	impossible, dead map[string]bool
	// fault returns the message of the state handler for an interface that can't exist.
	fault func(called string) string
	// fails are nodes whose state handler fails, and lose reports whether a write is lost: the
	// program dies, and what it had to write after that is lost too.
	fails map[string]bool
	lose  func() bool
	// written is the number of writes, and also the source of UIDs.
	written int
}

const currentState = `interfaces:
- {name: eth1, type: ethernet, state: up, mtu: 1500}
- {name: eth2, type: ethernet, state: up, mtu: 1500}
`

func newCluster(t *testing.T, nodes ...string) *cluster {
	t.Helper()
	c := &cluster{
		t: t, now: time.Unix(1000, 0), nodes: map[string]policy.Node{}, policies: map[nmstate.Reference]*nmstate.Policy{},
		enactments: map[string]*nmstate.Enactment{}, states: map[string]*nmstate.State{}, owners: map[string]Owners{},
		fault:    func(called string) string { return called + ": there is no such interface" },
		statuses: map[nmstate.Reference]Status{}, lose: func() bool { return false },
		fails: map[string]bool{}, impossible: map[string]bool{}, dead: map[string]bool{},
	}
	for _, node := range nodes {
		c.nodes[node] = policy.Node{Name: node, Labels: map[string]string{"net": "a"}}
		c.states[node] = &nmstate.State{
			Meta: store.Meta{Generation: 1, ResourceVersion: "0"}, Name: node, Managed: true, Current: parsed(t, currentState),
		}
	}
	return c
}

func ref(name string) nmstate.Reference {
	return nmstate.Reference{Kind: "NodeNetworkConfigurationPolicy", Name: name}
}

// put makes a policy, or the next generation of it.
func (c *cluster) put(name, desired string, change ...func(*nmstate.Policy)) {
	c.t.Helper()
	row := &nmstate.Policy{Unavailable: "100%", Meta: store.Meta{UID: c.next()}}
	row.Spec.Reference, row.Spec.IgnoreTaints = ref(name), true
	if old := c.policies[ref(name)]; old != nil {
		clone := *old
		row = &clone
	}
	row.Generation++
	row.Spec.UID, row.Spec.Generation, row.Spec.Desired = row.UID, row.Generation, parsed(c.t, desired)
	for _, f := range change {
		f(row)
	}
	c.policies[ref(name)] = row
}

func (c *cluster) next() string {
	c.written++
	return strconv.Itoa(c.written)
}

func (c *cluster) situation(node string) Situation {
	s := Situation{Node: c.nodes[node], State: c.states[node], Now: c.now}
	for _, one := range c.policies {
		s.Policies = append(s.Policies, one)
	}
	for _, e := range c.enactments {
		if e.Node == node {
			s.Enactments = append(s.Enactments, e)
		}
	}
	return s
}

// handle is a pass of the policy handler of a node; it reports whether something changed.
func (c *cluster) handle(node string) bool {
	c.t.Helper()
	changes := Node(c.situation(node))
	var writes []func()
	for _, e := range changes.Put {
		writes = append(writes, func() { c.write(e) })
	}
	if changes.Desired != nil {
		writes = append(writes, func() { c.desire(node, changes.Desired) })
	}
	changed := len(writes)+len(changes.Delete) > 0
	writes = append(writes, func() { c.owners[node] = changes.Owners })
	for _, e := range changes.Delete {
		writes = append(writes, func() { delete(c.enactments, e.Name) })
	}
	for _, write := range writes {
		if c.lose() {
			break
		}
		write()
	}
	return changed
}

func (c *cluster) write(e nmstate.Enactment) {
	c.t.Helper()
	e.Slot = nmstate.Slot{}
	old := c.enactments[e.Name]
	if old != nil {
		e.Slot = old.Slot
	} else {
		e.UID = c.next()
	}
	if old == nil || old.Phase != e.Phase {
		e.Since = c.now
	}
	e.ResourceVersion = c.next()
	e.Desired, e.Applied, e.Before, e.Undoing = copied(c.t, e.Desired), copied(c.t, e.Applied), copied(c.t, e.Before), copied(c.t, e.Undoing)
	e.Trial.Former = copied(c.t, e.Trial.Former)
	c.enactments[e.Name] = &e
}

func (c *cluster) desire(node string, desired *Desired) {
	c.t.Helper()
	state := *c.states[node]
	if desired.ResourceVersion != state.ResourceVersion {
		c.t.Fatalf("node %s: made of version %s, but there is %s", node, desired.ResourceVersion, state.ResourceVersion)
	}
	state.Desired, state.FromPolicies, state.Parts = copied(c.t, desired.State), copied(c.t, desired.FromPolicies), desired.Parts
	state.PolicyReach = slices.Clone(desired.Reach)
	state.Generation++
	state.ResourceVersion = c.next()
	c.states[node] = &state
}

// enforce is a pass of the state handler of a node.
func (c *cluster) enforce(node string) bool {
	c.t.Helper()
	state := *c.states[node]
	parts := c.parts(&state)
	var failures []nmstate.Failure
	for i := range parts {
		if parts[i].fault = c.why(node, parts[i], state.Current); parts[i].fault != "" {
			failures = append(failures, nmstate.Failure{Path: parts[i].path, Message: parts[i].fault})
		}
	}
	failing := len(failures) > 0
	same := state.Failing == failing && state.Available == !failing && slices.Equal(state.Failures, failures)
	if !state.Managed || state.Observed() && same {
		return false
	}
	state.ObservedGeneration, state.Available, state.Failing, state.Message = state.Generation, !failing, failing, ""
	state.Failures = failures
	for _, one := range parts {
		if one.fault == "" {
			state.Current = become(c.t, state.Current, one.desired)
		}
	}
	if len(failures) > 0 {
		state.Message = failures[0].Message
	}
	state.ResourceVersion = c.next()
	c.states[node] = &state
	return true
}

// part holds the settings that a state handler enforces together.
type part struct {
	path    string
	desired map[string]any
	reach   []string
	// fault is why the node can't have it, "" if it can.
	fault string
}

func (c *cluster) parts(state *nmstate.State) []part {
	c.t.Helper()
	divided, rest, err := policy.Split(state.Desired, state.Parts)
	if err != nil || len(state.Parts) == 0 {
		return []part{{desired: state.Desired, reach: state.PolicyReach}}
	}
	parts := []part{{desired: rest}}
	for n, desired := range divided {
		parts = append(parts, part{path: state.Parts[n].Paths[0], desired: desired, reach: state.Parts[n].Reach})
	}
	return parts
}

// why is the reason that a node can't have a part, "" if it can. Targets count for a part that
// changes the node.
func (c *cluster) why(node string, one part, current map[string]any) string {
	c.t.Helper()
	if len(one.desired) == 0 {
		return ""
	}
	if c.fails[node] {
		return "the kernel says no"
	}
	if called := c.lacks(one.desired); called != "" {
		return c.fault(called)
	}
	for _, target := range one.reach {
		if c.dead[target] && !policy.Same(become(c.t, current, one.desired), current) {
			return "target " + target + " of reach does not answer"
		}
	}
	return ""
}

// lacks is the name of an interface that can't be, "" if all can.
func (c *cluster) lacks(desired map[string]any) string {
	list, _ := desired["interfaces"].([]any)
	for _, item := range list {
		want := item.(map[string]any)
		if called, _ := want["name"].(string); c.impossible[called] && want["state"] != "absent" {
			return called
		}
	}
	return ""
}

// become is a kernel: it has interfaces with an MTU and a description.
func become(t *testing.T, current, desired map[string]any) map[string]any {
	t.Helper()
	next := copied(t, current)
	list, _ := next["interfaces"].([]any)
	wanted, _ := desired["interfaces"].([]any)
	for _, item := range wanted {
		want := maps.Clone(item.(map[string]any))
		maker := want["made-by"]
		delete(want, "made-by")
		at := -1
		for i, have := range list {
			if have.(map[string]any)["name"] == want["name"] {
				at = i
			}
		}
		switch {
		case want["state"] == "absent" && at >= 0:
			list = append(list[:at:at], list[at+1:]...)
		case want["state"] == "absent":
		case at < 0 && maker == "others":
		case at < 0:
			made := map[string]any{"state": "up", "mtu": float64(1500)}
			maps.Copy(made, want)
			list = append(list, made)
		default:
			maps.Copy(list[at].(map[string]any), want)
		}
	}
	next["interfaces"] = list
	return copied(t, next)
}

// current changes the current state of the network of node n1.
func (c *cluster) current(text string) {
	c.t.Helper()
	state := *c.states["n1"]
	state.Current = parsed(c.t, text)
	c.states["n1"] = &state
}

func (c *cluster) manage(node string, managed bool) {
	state := *c.states[node]
	state.Managed = managed
	c.states[node] = &state
}

// roll is a pass of the operator about a policy. More slots than its limit never live.
func (c *cluster) roll(one nmstate.Reference) bool {
	c.t.Helper()
	n := Nodes{Policy: c.policies[one], Now: c.now}
	for _, node := range c.nodes {
		n.Nodes = append(n.Nodes, node)
	}
	for _, row := range c.policies {
		n.Policies = append(n.Policies, row)
	}
	for _, e := range c.enactments {
		if e.Policy == one {
			n.Enactments = append(n.Enactments, e)
		} else {
			n.Others = append(n.Others, e)
		}
	}
	rolled := Rollout(n)
	if len(rolled.Grant) > 0 {
		c.bounded(n, len(rolled.Grant))
	}
	for _, e := range rolled.Release {
		c.slot(e, Ended(e.Slot))
	}
	for _, e := range rolled.Grant {
		c.slot(e, rolled.Granted(n.Policy, e.Node))
	}
	before := c.statuses[one]
	if !c.lose() {
		c.statuses[one] = rolled.Status
		row := *c.policies[one]
		if last := rolled.LastSlot(); last != "" {
			row.LastSlot = last
		}
		row.Aborted = rolled.Status.Condition == "Degraded" && rolled.Status.Reason == "ConfigurationAborted"
		row.Degraded = rolled.Status.Condition == "Degraded"
		c.policies[one] = &row
	}
	return len(rolled.Grant)+len(rolled.Release) > 0 || before != rolled.Status
}

// bounded checks that the slots in use and the granted slots together do not exceed the limit.
func (c *cluster) bounded(n Nodes, granted int) {
	c.t.Helper()
	applicable := 0
	for _, node := range n.Nodes {
		if applies, _ := policy.Applies(n.Policy.Spec, node); applies {
			applicable++
		}
	}
	limit, err := policy.Limit(n.Policy.Unavailable, applicable)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range n.Enactments {
		if e.Slot.Expires.After(n.Now) {
			granted++
		}
	}
	if granted > limit {
		c.t.Fatalf("policy %s: %d slots of at most %d live", n.Policy.Spec.Name, granted, limit)
	}
}

func (c *cluster) slot(e *nmstate.Enactment, slot nmstate.Slot) {
	if c.lose() {
		return
	}
	row := *c.enactments[e.Name]
	row.Slot = slot
	c.enactments[e.Name] = &row
}

// settle runs all until nothing changes.
func (c *cluster) settle() {
	c.t.Helper()
	for range 200 {
		changed := false
		for node := range c.nodes {
			changed = c.handle(node) || changed
			changed = c.enforce(node) || changed
		}
		for one := range c.policies {
			changed = c.roll(one) || changed
		}
		if !changed {
			return
		}
	}
	c.t.Fatalf("it does not settle: %s", words(c.t, c.enactments))
}

func (c *cluster) enactment(node, name string) *nmstate.Enactment {
	return c.enactments[v1beta1.EnactmentName(node, ref(name).Kind, name)]
}

// phase compares the phase and the reason of an enactment.
func (c *cluster) phase(node, name string, phase nmstate.Phase, reason string) {
	c.t.Helper()
	e := c.enactment(node, name)
	if e == nil {
		c.t.Fatalf("policy %s has no enactment on node %s", name, node)
	}
	if e.Phase != phase || e.Reason != reason {
		c.t.Errorf("policy %s on node %s: got %s %s (%s), want %s %s", name, node, e.Phase, e.Reason, e.Message, phase, reason)
	}
}
