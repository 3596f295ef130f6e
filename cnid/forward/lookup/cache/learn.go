// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"time"

	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// learn takes an answer into the rows. vpc is the VPC of the question, which is there
// still.
func (c *Cache) learn(v View, vpc *store.VPC, question *asked, a Answer, s *Steps) {
	old := c.rows.all[a.Key]
	switch a.Result {
	case Found:
		now, ok := c.usable(v, vpc, a)
		if !ok {
			c.finish(old, Unusable, v.Now, s)
			return
		}
		c.renew(v, now, old, question, s)
	case NotFound:
		c.finish(old, Absent, v.Now, s)
	case Refused, Slow, Failed: // nothing is known, and packets stay where they are
	}
}

// usable returns the row for an Address, if its packets may be sent to its node.
func (c *Cache) usable(v View, vpc *store.VPC, a Answer) (*row, bool) {
	if a.Address == nil || a.Address.Domain() != vpc.Name || a.Address.IP != a.IP {
		return nil, false
	}
	self, node := store.GetNode(v.Tx, c.node), store.GetNode(v.Tx, a.Address.Node)
	one, ok := plan.Elsewhere(v.Tx, self, c.node, vpc.VNI, a.Address)
	if !ok || one.Kind != state.Remote || !serves(node) {
		return nil, false
	}
	cached := state.Cached{VNI: vpc.VNI, IP: a.IP, Node: one.Node, MAC: one.MAC}
	return &row{Cached: cached, vpcUID: vpc.UID, node: node.Name, nodeUID: node.UID}, true
}

// serves reports whether a node receives packets as far as the API knows.
func serves(node *store.Node) bool {
	return node != nil && node.Ready && !node.OutOfService && !node.Deleting
}

// renew puts a row in place of the old one, which may be nil. An unchanged row is not
// written, because a program may be about to mark it, unless a packet found no row: then it
// is marked.
func (c *Cache) renew(v View, now, old *row, question *asked, s *Steps) {
	c.schedule(now, v.Now)
	now.ifindex = question.ifindex
	if old != nil {
		now.inherit(old, v.Now)
	}
	if question.missed {
		now.Used = v.Now
	}
	if old != nil && !old.Gone && !question.missed && now.Node == old.Node && now.MAC == old.MAC {
		c.rows.add(now)
		return
	}
	if (old == nil || old.Gone) && !c.room(v.Now, now, old == nil, s) {
		return
	}
	c.rows.add(now)
	s.Put = append(s.Put, now.Cached)
}

// inherit takes from the old row what outlives it.
func (r *row) inherit(old *row, now time.Duration) {
	r.Used = old.Used
	if old.ifindex != 0 {
		r.ifindex = old.ifindex
	}
	switch {
	case r.Node != old.Node:
		r.Before, r.Until = old.Node, now+grace
	case old.Before.IsValid() && !old.Gone && old.Until > now:
		r.Before, r.Until = old.Before, old.Until
	}
}

// room ends rows until there is room for another one that packets use, and reports whether
// there is. added reports that the table gets one more. In a full table the room comes only
// once the row that ends is deleted.
func (c *Cache) room(now time.Duration, one *row, added bool, s *Steps) bool {
	if added && len(c.rows.all) >= RowsAtMost {
		if len(c.rows.leaving) == 0 {
			c.finish(c.rows.fullest(), Full, now, s)
		}
		return false
	}
	for excess := c.rows.excess(one.VNI, one.ifindex); excess != nil; excess = c.rows.excess(one.VNI, one.ifindex) {
		c.finish(excess, Full, now, s)
	}
	return true
}

// finish ends a row that packets use; one is nil or has ended already: then nothing happens.
func (c *Cache) finish(one *row, cause Cause, now time.Duration, s *Steps) {
	if one == nil || one.Gone {
		return
	}
	c.rows.gone(one, now+grace)
	s.Put = append(s.Put, one.Cached)
	s.Ended = append(s.Ended, cause)
}
