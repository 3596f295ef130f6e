// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package role

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/operator/placement"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// cluster is an API with the objects of one VPC's roles, the nodes, and an operator.
type cluster struct {
	t       *testing.T
	off     bool
	vpc     VPC
	subnets []Subnet
	nodes   map[string]Node
	members map[string]roles.Member
	hosts   []string
	now     time.Time
	// waits is the memory of the operator.
	waits map[string]Wait
	uids  int
	// left is when each member that leaves began to, by UID and revision.
	left map[string]time.Time
	// stop is called before each write, and kills the operator if it returns true.
	stop func() bool
	// refuses reports whether the API server refuses a step.
	refuses func(Step) bool
}

var errNotWritten = errors.New("this write had no effect")

func newCluster(t *testing.T, nodes int) *cluster {
	c := &cluster{
		t: t, vpc: VPC{Name: "v", UID: "v-uid"}, nodes: map[string]Node{}, members: map[string]roles.Member{},
		now: time.Unix(1000, 0), left: map[string]time.Time{}, stop: func() bool { return false }, refuses: func(Step) bool { return false },
	}
	for i := range nodes {
		c.join(fmt.Sprintf("n%d", i))
	}
	return c
}

// join adds a node. The node differs from an earlier node of the same name.
func (c *cluster) join(name string) {
	c.uids++
	c.nodes[name] = Node{
		Name: name, UID: fmt.Sprintf("node-%d", c.uids), Zone: fmt.Sprintf("z%d", len(name)%2+int(name[len(name)-1])%2),
		Alive: true, Replied: true, Capable: true, Eligible: true,
	}
}

func (c *cluster) edit(name string, change func(*Node)) {
	node, ok := c.nodes[name]
	if !ok {
		return
	}
	change(&node)
	c.nodes[name] = node
}

func (c *cluster) world() World {
	w := World{Off: c.off, VPC: c.vpc, Subnets: slices.Clone(c.subnets), Nodes: maps.Clone(c.nodes), Hosts: slices.Clone(c.hosts)}
	for _, m := range c.members {
		w.Members = append(w.Members, &m)
	}
	return w
}

// pass decides once and writes, and returns the plan.
func (c *cluster) pass() Plan {
	c.t.Helper()
	p := Decide(c.world(), c.waits, c.now)
	c.waits = p.Waits
	if p.Revision != 0 {
		if c.stop() {
			return c.killed(p)
		}
		if p.Revision < c.vpc.Revision {
			c.t.Fatalf("the revision of the VPC falls from %d to %d", c.vpc.Revision, p.Revision)
		}
		c.vpc.Revision = p.Revision
	}
	killed := false
	_ = inTurn(p.Steps, func(step Step) error {
		killed = killed || c.stop()
		if killed || c.refuses(step) {
			return errNotWritten
		}
		c.write(step)
		return nil
	})
	if killed {
		return c.killed(p)
	}
	return p
}

// killed forgets the memory of the operator.
func (c *cluster) killed(p Plan) Plan {
	c.waits = nil
	return p
}

// highest returns the highest revision of a member.
func (c *cluster) highest() int64 {
	var revision int64
	for _, m := range c.members {
		revision = max(revision, m.Revision)
	}
	return revision
}

func (c *cluster) write(step Step) {
	c.t.Helper()
	m := step.Member
	held, exists := c.members[m.Name]
	if step.Verb != Delete && m.Revision > c.vpc.Revision {
		c.t.Fatalf("%s gets revision %d, and the VPC has taken %d", m.Name, m.Revision, c.vpc.Revision)
	}
	switch step.Verb {
	case Create:
		if exists {
			c.t.Fatalf("%s is made again", m.Name)
		}
		c.uids++
		m.Meta = store.Meta{UID: fmt.Sprintf("member-%d", c.uids)}
		c.members[m.Name] = m
	case Change:
		if !exists || m.Revision <= c.highest() {
			c.t.Fatalf("%s changes to %s with revision %d; the highest is %d", m.Name, m.Stage, m.Revision, c.highest())
		}
		held.Stage, held.Revision = m.Stage, m.Revision
		c.members[m.Name] = held
		if m.Stage == roles.Leaving {
			c.left[fmt.Sprint(held.UID, held.Revision)] = c.now
		}
	case Delete:
		c.mayDelete(held)
		delete(c.members, m.Name)
	}
}

// mayDelete fails if a node may still send to a member, and 60 s have not passed.
func (c *cluster) mayDelete(m roles.Member) {
	c.t.Helper()
	node, exists := c.nodes[m.Node]
	if !exists || node.UID != m.NodeUID || m.Stage == roles.Joining || m.VPCUID != c.vpc.UID {
		return
	}
	if m.Stage == roles.Serving {
		c.t.Fatalf("%s on %s is deleted while it serves", m.Name, m.Node)
	}
	after := c.now.Sub(c.left[fmt.Sprint(m.UID, m.Revision)])
	if after < grace {
		c.t.Fatalf("%s is deleted after %s", m.Name, after)
	}
	if after >= patience {
		return
	}
	for _, host := range c.hosts {
		if node, ok := c.nodes[host]; ok && !node.Fenced && node.Listed < m.Revision && (host != m.Node || node.Alive) {
			c.t.Fatalf("%s is deleted after %s, and %s has acknowledged %d of %d", m.Name, after, host, node.Listed, m.Revision)
		}
	}
}

// acknowledge lets a node list the members as they are.
func (c *cluster) acknowledge(name string) {
	c.edit(name, func(n *Node) { n.Listed = max(n.Listed, c.highest()) })
}

// complete lets a node fill all of its tables.
func (c *cluster) complete(node string) {
	for name, m := range c.members {
		if m.Node == node && c.nodes[node].UID == m.NodeUID {
			m.Complete = true
			c.members[name] = m
		}
	}
}

// settle lets all nodes do their part, until nothing changes any more.
func (c *cluster) settle() {
	c.t.Helper()
	for range 200 {
		for name, node := range c.nodes {
			if node.Alive {
				c.complete(name)
				c.acknowledge(name)
			}
		}
		p := c.pass()
		if len(p.Steps) == 0 && p.Next == 0 {
			return
		}
		c.now = c.now.Add(max(p.Next, time.Millisecond))
	}
	c.t.Fatalf("the members never settle: %v", c.stages(""))
}

// stages returns the members of a role, all for "", as node=stage, sorted.
func (c *cluster) stages(key string) []string {
	var all []string
	for _, m := range c.members {
		if key == "" || m.Key() == key {
			all = append(all, m.Key()+"/"+m.Node+"="+m.Stage)
		}
	}
	slices.Sort(all)
	return all
}

// serving counts the members of a role that serve on living nodes.
func (c *cluster) serving(key string) int {
	count := 0
	for _, m := range c.members {
		if node := c.nodes[m.Node]; m.Key() == key && m.Stage == roles.Serving && node.UID == m.NodeUID && node.Alive {
			count++
		}
	}
	return count
}

// wanted returns the stages of a role of n nodes at rest.
func (c *cluster) wanted(key string, n int) []string {
	var candidates []placement.Candidate
	for _, node := range c.nodes {
		if node.candidate() {
			candidates = append(candidates, placement.Candidate{Node: node.Name, Zone: node.Zone})
		}
	}
	var all []string
	for _, node := range placement.Members(key, n, candidates) {
		all = append(all, key+"/"+node+"="+roles.Serving)
	}
	return all
}
