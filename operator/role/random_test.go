// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package role

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/store/rows/roles"
	"github.com/alioth-net/alioth/test/soak"
)

// disturb changes something that operators do not decide.
func (c *cluster) disturb(random *rand.Rand) {
	name := fmt.Sprintf("n%d", random.IntN(8))
	switch random.IntN(12) {
	case 0:
		delete(c.nodes, name)
	case 1, 2:
		if _, ok := c.nodes[name]; !ok {
			c.join(name)
		}
	case 3:
		c.edit(name, func(n *Node) { n.Alive = !n.Alive && !n.Fenced })
	case 4:
		c.edit(name, func(n *Node) { n.Fenced = !n.Fenced; n.Alive = n.Alive && !n.Fenced })
	case 5:
		c.edit(name, func(n *Node) { n.Eligible = !n.Eligible })
	case 6:
		c.vpc.Dividers = random.IntN(5)
	case 7:
		c.subnets[0].Bouncers = random.IntN(5)
	case 8, 9:
		c.acknowledge(name)
	case 10:
		c.complete(name)
	case 11:
		c.hosts = nil
		for name := range c.nodes {
			if random.IntN(2) == 0 {
				c.hosts = append(c.hosts, name)
			}
		}
	}
}

// counts returns the members of a role by stage.
func (c *cluster) counts(key string) map[string]int {
	count := map[string]int{}
	for _, m := range c.members {
		if m.Key() == key {
			count[m.Stage]++
		}
	}
	return count
}

// checked makes a pass and checks every state between its writes.
func (c *cluster) checked(random *rand.Rand) {
	c.t.Helper()
	wanted := map[string]int{"v-uid": c.vpc.Dividers, "s-uid": c.vpc.Dividers}
	if c.subnets[0].Bouncers > 0 {
		wanted["s-uid"] = c.subnets[0].Bouncers
	}
	before, alive := map[string]map[string]int{}, map[string]int{}
	for key := range wanted {
		before[key], alive[key] = c.counts(key), c.serving(key)
	}
	check := func() {
		c.t.Helper()
		for key, n := range wanted {
			now := c.counts(key)
			if now[roles.Joining] > n && now[roles.Joining] > before[key][roles.Joining] {
				c.t.Fatalf("%d members of %s join, want %d at most: %v", now[roles.Joining], key, n, c.stages(key))
			}
			if least := min(len(c.wanted(key, n)), alive[key]); c.serving(key) < least {
				c.t.Fatalf("%d members of %s serve, want %d at least: %v", c.serving(key), key, least, c.stages(key))
			}
			if n > 0 && alive[key] > 0 && c.serving(key) == 0 {
				c.t.Fatalf("the last member of %s has left: %v", key, c.stages(key))
			}
		}
	}
	killAfter := random.IntN(12)
	c.stop = func() bool {
		check()
		killAfter--
		return killAfter < 0
	}
	refused := random.IntN(4) == 0
	c.refuses = func(Step) bool { return refused && random.IntN(3) == 0 }
	c.pass()
	check()
	if killAfter < 0 || refused {
		return
	}
	for key, n := range wanted { // the pass is complete
		if now := c.counts(key); now[roles.Serving] > max(n, 0) || now[roles.Joining]+now[roles.Serving] > 2*n {
			c.t.Fatalf("%v of a role of %d nodes", c.stages(key), n)
		}
	}
}

// TestRoles_RandomEvents_InvariantsHold: nodes come, go and die, numbers change, reports are late or lost, and
// the operator is killed at any write. The API server refuses some writes.
func TestRoles_RandomEvents_InvariantsHold(t *testing.T) {
	for i := range soak.Or(t, 5000, 150) {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			c := newCluster(t, 5)
			c.vpc.Dividers, c.subnets = 2, []Subnet{{Name: "s", UID: "s-uid", Bouncers: 2}}
			for range 200 {
				c.disturb(random)
				if random.IntN(3) == 0 {
					c.now = c.now.Add(time.Duration(random.IntN(20)) * time.Second)
				}
				c.checked(random)
			}
			c.ends()
		})
	}
}

// ends lets all rest, with at least one node, and checks the members.
func (c *cluster) ends() {
	c.t.Helper()
	c.stop, c.refuses = func() bool { return false }, func(Step) bool { return false }
	c.join("n9")
	c.settle()
	bouncers := c.subnets[0].Bouncers
	if bouncers == 0 {
		bouncers = c.vpc.Dividers
	}
	want := slices.Concat(c.wanted("s-uid", bouncers), c.wanted("v-uid", c.vpc.Dividers))
	if diff := cmp.Diff(want, c.stages("")); diff != "" {
		c.t.Fatalf("members at rest (-want +got):\n%s", diff)
	}
}

func (c *cluster) clone() *cluster {
	other := *c
	other.nodes, other.members, other.left = maps.Clone(c.nodes), maps.Clone(c.members), maps.Clone(c.left)
	other.subnets, other.hosts, other.waits = slices.Clone(c.subnets), slices.Clone(c.hosts), maps.Clone(c.waits)
	return &other
}

// TestRoles_OperatorKilledAtEachWrite_SameEnd: the successor finds each state between two
// writes, and knows only the API.
func TestRoles_OperatorKilledAtEachWrite_SameEnd(t *testing.T) {
	for name, change := range map[string]func(*cluster){
		"roles begin":                 func(c *cluster) { c.vpc.Dividers, c.subnets[0].Bouncers = 3, 2 },
		"more":                        func(c *cluster) { c.subnets[0].Bouncers = 4 },
		"fewer":                       func(c *cluster) { c.subnets[0].Bouncers = 1 },
		"unset":                       func(c *cluster) { c.subnets[0].Bouncers = 0 },
		"the subnet is deleted":       func(c *cluster) { c.subnets[0] = Subnet{Name: "s", UID: "s2-uid", Bouncers: 2} },
		"the VPC is made again":       func(c *cluster) { c.vpc = VPC{Name: "v", UID: "v-uid2", Dividers: 1} },
		"all members are elsewhere":   func(c *cluster) { c.edit("n0", leaves); c.edit("n1", leaves); c.edit("n2", leaves) },
		"a member's node is dead":     func(c *cluster) { c.edit(c.oneOf(roles.Serving), func(n *Node) { n.Alive = false }) },
		"a member's node joins again": func(c *cluster) { c.join(c.oneOf(roles.Serving)) },
		"a member's node is deleted":  func(c *cluster) { delete(c.nodes, c.oneOf(roles.Serving)) },
		"another node joins":          func(c *cluster) { c.join("n7") },
		"all nodes lose the label": func(c *cluster) {
			for name := range c.nodes {
				c.edit(name, func(n *Node) { n.Eligible = false })
			}
		},
		"the status of the VPC is lost": func(c *cluster) { c.vpc.Revision = 0; c.subnets[0].Bouncers = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			start := newCluster(t, 6)
			start.hosts = []string{"n0", "n4"}
			start.subnets = []Subnet{{Name: "s", UID: "s-uid", Bouncers: 2}}
			start.settle()
			change(start)
			undisturbed := start.clone()
			undisturbed.settle()
			writes := 0
			for ; ; writes++ {
				c := start.clone()
				c.t = t
				left, died := writes, false
				c.stop = func() bool {
					left--
					died = died || left == -1
					return left == -1
				}
				c.settle()
				if !died {
					break
				}
				if diff := cmp.Diff(undisturbed.stages(""), c.stages("")); diff != "" {
					t.Errorf("killed before write %d: the end is another (-undisturbed +killed):\n%s", writes, diff)
				}
			}
			if writes == 0 && name != "all nodes lose the label" && name != "another node joins" {
				t.Error("nothing was written")
			}
		})
	}
}

func leaves(n *Node) { n.Departing = true }

// TestRoles_NodeAdded_AtMostItsShareMoves: one member of a role at most.
func TestRoles_NodeAdded_AtMostItsShareMoves(t *testing.T) {
	c := newCluster(t, 5)
	for i := range 60 {
		c.subnets = append(c.subnets, Subnet{Name: fmt.Sprintf("s%d", i), UID: fmt.Sprintf("s%d-uid", i), Bouncers: 2})
	}
	c.settle()
	before := c.stages("")
	c.join("n8")
	c.settle()
	moved := 0
	for _, line := range before {
		if !slices.Contains(c.stages(""), line) {
			moved++
		}
	}
	if moved == 0 || moved > len(c.subnets) {
		t.Errorf("of %d members %d move, want one per role at most", len(before), moved)
	}
}
