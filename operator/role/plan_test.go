// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package role

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// divided returns a settled cluster with a VPC of n dividers.
func divided(t *testing.T, nodes, n int) *cluster {
	c := newCluster(t, nodes)
	c.vpc.Dividers = n
	c.settle()
	if diff := cmp.Diff(c.wanted("v-uid", n), c.stages("v-uid")); diff != "" {
		t.Fatalf("members of a new role (-want +got):\n%s", diff)
	}
	return c
}

// oneOf returns a node whose member is at a stage.
func (c *cluster) oneOf(stage string) string {
	c.t.Helper()
	for _, m := range c.members {
		if m.Stage == stage {
			return m.Node
		}
	}
	c.t.Fatalf("no member is %s: %v", stage, c.stages(""))
	return ""
}

func (c *cluster) stageOf(node string) string {
	for _, m := range c.members {
		if m.Node == node {
			return m.Stage
		}
	}
	return ""
}

func TestMember_TableComplete_Serves(t *testing.T) {
	c := newCluster(t, 3)
	c.vpc.Dividers = 1
	c.pass()
	node := c.oneOf(roles.Joining)
	c.pass()
	if got := c.stageOf(node); got != roles.Joining {
		t.Errorf("without a table it is %s", got)
	}
	c.complete(node)
	c.pass()
	if got := c.stageOf(node); got != roles.Serving {
		t.Errorf("with its table it is %s", got)
	}
	for name, m := range c.members { // the daemon starts again with empty maps
		m.Complete = false
		c.members[name] = m
	}
	if p := c.pass(); len(p.Steps) > 0 {
		t.Errorf("a member that starts again is not left in peace: %+v", p.Steps)
	}
}

// TestMember_SuccessorServes_LeavesAfterAcknowledgement: and it is deleted a second after all nodes that
// may send to it have acknowledged.
func TestMember_SuccessorServes_LeavesAfterAcknowledgement(t *testing.T) {
	c := divided(t, 4, 1)
	c.hosts = []string{"n0", "n1"}
	before := c.oneOf(roles.Serving)
	c.edit(before, func(n *Node) { n.Departing = true })
	c.pass()
	successor := c.oneOf(roles.Joining)
	if got := c.stageOf(before); got != roles.Serving {
		t.Fatalf("while its successor joins it is %s", got)
	}
	c.complete(successor)
	c.pass()
	if got := c.stageOf(before); got != roles.Leaving {
		t.Fatalf("when its successor serves it is %s", got)
	}
	for _, node := range []string{"n0", "n1", "n2", "n3"} {
		c.now = c.now.Add(2 * time.Second)
		c.pass()
		if got := c.stageOf(before); got != roles.Leaving {
			t.Fatalf("before %s has acknowledged it is %q", node, got)
		}
		if node == "n0" || node == "n1" || node == before || node == successor {
			c.acknowledge(node)
		}
	}
	if p := c.pass(); p.Next != grace {
		t.Errorf("the next look is after %s, want %s", p.Next, grace)
	}
	if c.stageOf(before) != roles.Leaving {
		t.Error("it is deleted without the second for packets on their way")
	}
	c.now = c.now.Add(grace)
	c.pass()
	if got := c.stageOf(before); got != "" {
		t.Errorf("after all has been acknowledged it is %s", got)
	}
}

func TestMember_AcknowledgementLost_AtMostOneMinute(t *testing.T) {
	c := divided(t, 4, 2)
	c.hosts = []string{"n0", "n1", "n2", "n3"}
	c.vpc.Dividers = 1
	c.pass()
	leaving := c.oneOf(roles.Leaving)
	c.pass()
	c.now = c.now.Add(patience - time.Millisecond)
	if p := c.pass(); c.stageOf(leaving) != roles.Leaving || p.Next != time.Millisecond {
		t.Errorf("just before the end of its time it is %q, the next look after %s", c.stageOf(leaving), p.Next)
	}
	c.now = c.now.Add(time.Millisecond)
	c.pass()
	c.now = c.now.Add(grace)
	c.pass()
	if got := c.stageOf(leaving); got != "" {
		t.Errorf("after its time it is %s", got)
	}
}

func TestMember_NodeDead_LeavesUnlessLast(t *testing.T) {
	for name, kill := range map[string]func(*Node){
		"NotReady": func(n *Node) { n.Alive = false },
		"fenced":   func(n *Node) { n.Alive, n.Fenced = false, true },
	} {
		c := divided(t, 4, 2)
		first := c.oneOf(roles.Serving)
		c.edit(first, kill)
		c.pass()
		if got := c.stageOf(first); got != roles.Leaving {
			t.Errorf("%s: it is %s while another one serves", name, got)
		}
		last := c.oneOf(roles.Serving)
		c.edit(last, kill)
		c.pass()
		if got := c.stageOf(last); got != roles.Serving {
			t.Errorf("%s: the last one is %s", name, got)
		}
		c.settle()
		if diff := cmp.Diff(c.wanted("v-uid", 2), c.stages("v-uid")); diff != "" {
			t.Errorf("%s: in the end (-want +got):\n%s", name, diff)
		}
	}
}

// TestMember_NodeJoinsAgain_NewMember: its member of before has the name that the new one
// needs.
func TestMember_NodeJoinsAgain_NewMember(t *testing.T) {
	c := divided(t, 1, 1)
	before := c.nodes["n0"].UID
	delete(c.nodes, "n0")
	c.pass()
	if got := c.stageOf("n0"); got != roles.Serving {
		t.Fatalf("the last member of a deleted node is %q", got)
	}
	c.join("n0")
	c.settle()
	for _, m := range c.members {
		if m.NodeUID == before || m.Stage != roles.Serving || !m.Complete {
			t.Errorf("the member of the node that has joined again is %+v", m)
		}
	}
	if len(c.members) != 1 {
		t.Errorf("members: %v", c.stages(""))
	}
}

func TestRole_ObjectGone_Ends(t *testing.T) {
	c := newCluster(t, 5)
	c.vpc.Dividers = 2
	c.subnets = []Subnet{{Name: "a", UID: "a-uid", Bouncers: 3}, {Name: "b", UID: "b-uid"}}
	c.settle()
	want := slices.Concat(c.wanted("a-uid", 3), c.wanted("b-uid", 2), c.wanted("v-uid", 2)) // b: as many as dividers
	if diff := cmp.Diff(want, c.stages("")); diff != "" {
		t.Fatalf("members (-want +got):\n%s", diff)
	}
	c.subnets = []Subnet{{Name: "a", UID: "a2-uid", Bouncers: 1}} // deleted, one made again
	c.settle()
	if diff := cmp.Diff(slices.Concat(c.wanted("a2-uid", 1), c.wanted("v-uid", 2)), c.stages("")); diff != "" {
		t.Errorf("after the subnets (-want +got):\n%s", diff)
	}
	c.vpc.Dividers = 0
	c.settle()
	if diff := cmp.Diff(c.wanted("a2-uid", 1), c.stages("")); diff != "" {
		t.Errorf("without dividers (-want +got):\n%s", diff)
	}
	c.vpc.UID = "v2-uid" // another VPC of that name
	c.subnets[0].Bouncers = 0
	c.pass()
	if got := c.stages(""); len(got) > 0 {
		t.Errorf("members of a VPC that is gone: %v", got)
	}
}

// TestMembers_NodesLackRoles_NotMadeYet: a node without the daemon, or without an
// address in the VPC, does not count, and roles that exist go on.
func TestMembers_NodesLackRoles_NotMadeYet(t *testing.T) {
	c := newCluster(t, 6)
	c.vpc.Dividers = 2
	c.hosts = []string{"n0", "n1", "n2", "n3", "n4"}
	for _, name := range []string{"n0", "n1", "n2", "n3", "n4"} {
		c.edit(name, func(n *Node) { n.Capable = false })
	}
	p := c.pass()
	if len(c.members) > 0 || p.Dividers.Reason != v1alpha1.NodesLackRolesReason || !strings.Contains(p.Dividers.Message, "n0, n1, n2 and 2 more") {
		t.Errorf("with old nodes: %v, %+v", c.stages(""), p.Dividers)
	}
	for name := range c.nodes {
		c.edit(name, func(n *Node) { n.Capable = true })
	}
	c.edit("n0", func(n *Node) { n.Capable, n.Replied = false, false })
	c.settle()
	if p := c.pass(); !p.Dividers.Ready || p.Dividers.Reason != v1alpha1.RolesServingReason || len(p.Dividers.Serving) != 2 {
		t.Errorf("with new nodes: %+v", p.Dividers)
	}
	c.edit("n0", func(n *Node) { n.Replied = true })
	c.hosts = []string{"n1"}
	if p := c.pass(); len(p.Steps) > 0 || !p.Dividers.Ready {
		t.Errorf("an old node joins without an address in the VPC: %+v", p)
	}
	c.hosts = []string{"n0"}
	if p := c.pass(); len(p.Steps) > 0 || p.Dividers.Reason != v1alpha1.NodesLackRolesReason {
		t.Errorf("an old node has an address in the VPC: %+v", p)
	}
}

// TestMembers_WithoutVerdicts_NotPlaced: nodes would lack the addresses that they need to judge the
// backends of Services. Existing members leave.
func TestMembers_WithoutVerdicts_NotPlaced(t *testing.T) {
	c := newCluster(t, 4)
	c.vpc.Dividers = 2
	c.settle()
	if p := c.pass(); !p.Dividers.Ready {
		t.Fatalf("with verdicts: %+v", p.Dividers)
	}
	c.off = true
	if p := c.pass(); p.Dividers.Ready || p.Dividers.Reason != v1alpha1.ScaledEndpointsOffReason ||
		!strings.Contains(p.Dividers.Message, "scaledEndpoints.enabled") {
		t.Errorf("without verdicts: %+v", p.Dividers)
	}
	c.settle()
	if len(c.members) > 0 {
		t.Errorf("members stay without verdicts: %v", c.stages(""))
	}
}

func TestMembers_TooFewNodes_ReasonGiven(t *testing.T) {
	c := newCluster(t, 4)
	c.vpc.Dividers = 3
	for _, name := range []string{"n1", "n3"} {
		c.edit(name, func(n *Node) { n.Eligible = false })
	}
	c.settle()
	got := c.pass().Dividers
	want := Summary{
		Wanted: 3, Serving: []string{"n0", "n2"}, Reason: v1alpha1.TooFewRoleNodesReason,
		Message: "3 nodes are wanted and 2 can take a role; the label alioth.node-restriction.kubernetes.io/role=true is missing on n1, n3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// TestNodeReport_Hostile_OthersNotHastened: a node may report any revision, and it counts
// for that node alone.
func TestNodeReport_Hostile_OthersNotHastened(t *testing.T) {
	c := divided(t, 4, 2)
	c.hosts = []string{"n0", "n1", "n2", "n3"}
	c.vpc.Dividers = 1
	c.edit("n3", func(n *Node) { n.Listed = 1<<63 - 1 })
	before := c.vpc.Revision
	c.pass()
	if c.vpc.Revision != before+1 {
		t.Errorf("the revision grows from %d to %d", before, c.vpc.Revision)
	}
	for range 3 {
		c.now = c.now.Add(10 * time.Second)
		c.pass() // fails if it deletes
	}
	c.oneOf(roles.Leaving)
}

func TestRoleSummary_Joining_ReasonAndCount(t *testing.T) {
	c := newCluster(t, 3)
	c.vpc.Dividers = 2
	c.pass()
	want := Summary{Wanted: 2, Reason: v1alpha1.RolesJoiningReason, Message: "0 of 2 nodes serve; the others are filling their tables"}
	if diff := cmp.Diff(want, c.pass().Dividers); diff != "" {
		t.Errorf("while members join (-want +got):\n%s", diff)
	}
	c.vpc.Dividers = 0
	if diff := cmp.Diff(Summary{}, c.pass().Dividers); diff != "" {
		t.Errorf("of a role that is not wanted (-want +got):\n%s", diff)
	}
}

// TestMember_Unwritable_OtherRolesGoOn: the API server refuses every divider. The
// bouncers join and serve.
func TestMember_Unwritable_OtherRolesGoOn(t *testing.T) {
	c := newCluster(t, 4)
	c.vpc.Dividers, c.subnets = 2, []Subnet{{Name: "s", UID: "s-uid", Bouncers: 2}}
	c.refuses = func(step Step) bool { return step.Member.Subnet == "" }
	for range 3 {
		for name := range c.nodes {
			c.complete(name)
			c.acknowledge(name)
		}
		c.pass()
	}
	if got, want := c.stages(""), c.wanted("s-uid", 2); !slices.Equal(got, want) {
		t.Errorf("the members are %v, want %v", got, want)
	}
}
