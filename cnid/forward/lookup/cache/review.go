// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// Times of rows.
const (
	// scanEvery is how often the rows are compared with the table, if there are any.
	scanEvery = 5 * time.Second
	// A row is read again in 4 to 5 min 40 s, so that rows which came together part. Then
	// there is time to read it before it ends: within 6 minutes after it was read, also if
	// the API server is away, it is read again or no packet uses it.
	readAfter, readSpread = 4 * time.Minute, 100 * time.Second
	endAfter              = 6*time.Minute - scanEvery - grace
	// Rows of an earlier daemon are read in this time, or end at its end.
	adoptedAfter = 5*time.Minute - scanEvery - grace
	// unusedBefore is how long one of them may have been unused.
	unusedBefore = 5 * time.Minute
)

// schedule sets when a row is read again that was read now.
func (c *Cache) schedule(one *row, now time.Duration) {
	one.since, one.deadline = now, now+endAfter
	one.due = now + readAfter + time.Duration(c.rand.Int64N(int64(readSpread)))
}

// Adopt takes the rows that an earlier daemon has left in the table. It is called once,
// before all other methods, with a store that has the nodes and VPCs of this node.
func (c *Cache) Adopt(v View, table []state.Cached) (s Steps) {
	c.revision, c.nextScan = v.Tx.Revision(), v.Now+scanEvery
	nodes := c.nodesByAddress(v.Tx)
	for _, cached := range table {
		one := &row{Cached: cached, since: v.Now - unusedBefore, deadline: v.Now + adoptedAfter}
		one.due = v.Now + time.Duration(c.rand.Int64N(int64(adoptedAfter*9/10)))
		one.Until, one.Used = min(one.Until, v.Now+grace), min(one.Used, v.Now)
		vpc, node := vpcOf(v, cached.VNI), nodes[cached.Node]
		if vpc != nil {
			one.vpcUID = vpc.UID
		}
		if node != nil {
			one.node, one.nodeUID = node.Name, node.UID
		}
		c.rows.add(one)
		switch {
		case vpc == nil:
			c.finish(one, VPCGone, v.Now, &s)
		case !serves(node):
			c.finish(one, NodeGone, v.Now, &s)
		}
	}
	c.proceed(v, &s)
	return s
}

// nodesByAddress returns the other nodes by their tunnel addresses. Of two nodes with one
// address it returns one that serves, if any does.
func (c *Cache) nodesByAddress(tx store.ReadTx) map[netip.Addr]*store.Node {
	self, nodes := store.GetNode(tx, c.node), map[netip.Addr]*store.Node{}
	for _, node := range store.ListNodes(tx) {
		at, ok := plan.TunnelAddress(self, node)
		if ok && node.Name != c.node && !serves(nodes[at]) {
			nodes[at] = node
		}
	}
	return nodes
}

// Deleted is called when a row has been deleted from the table.
func (c *Cache) Deleted(key Key) { c.rows.remove(key) }

// ScanDue reports whether Scanned is to be called now.
func (c *Cache) ScanDue(now time.Duration) bool { return len(c.rows.all) > 0 && now >= c.nextScan }

// Unscanned is called if the table could not be read when it was due.
func (c *Cache) Unscanned(v View) Steps {
	c.nextScan = v.Now + scanEvery
	return c.Tick(v)
}

// Scanned compares the rows with the rows in the table. There, programs write when they used a
// row, and mark a row when its node has returned a packet. Scanned repeats failed steps.
func (c *Cache) Scanned(v View, table []state.Cached) (s Steps) {
	c.judge(v, &s)
	c.nextScan = v.Now + scanEvery
	seen := make(map[Key]bool, len(table))
	for _, cached := range table {
		key := Key{VNI: cached.VNI, IP: cached.IP}
		seen[key] = true
		if one := c.rows.all[key]; one != nil {
			c.compare(v.Now, one, cached, &s)
			continue
		}
		s.Delete = append(s.Delete, key) // nobody else writes rows
	}
	for key, one := range c.rows.all {
		if !seen[key] {
			c.rows.remove(key)
			if !one.Gone {
				s.Ended = append(s.Ended, Lost)
			}
		}
	}
	c.review(v.Now, &s)
	c.expire(v.Now, &s)
	c.proceed(v, &s)
	return s
}

// compare compares a row with what the table has of it.
func (c *Cache) compare(now time.Duration, one *row, cached state.Cached, s *Steps) {
	one.Used = min(max(one.Used, cached.Used), now)
	switch {
	case cached.Gone && !one.Gone:
		c.rows.gone(one, min(cached.Until, now+grace))
		s.Ended = append(s.Ended, Returned)
		c.want(now, one.key(), one.ifindex, true)
	case !one.Gone && (cached.Node != one.Node || cached.MAC != one.MAC):
		s.Put = append(s.Put, one.Cached)
	}
}

// review has rows read again whose time has come, and ends those that are not used.
func (c *Cache) review(now time.Duration, s *Steps) {
	var due []*row
	for _, one := range c.rows.all {
		switch {
		case one.Gone || now < one.due:
		case one.Used <= one.since: // the packet that missed does not count
			c.finish(one, Unused, now, s)
		default:
			due = append(due, one)
		}
	}
	slices.SortFunc(due, func(a, b *row) int { return cmp.Or(cmp.Compare(a.due, b.due), a.IP.Compare(b.IP)) })
	for _, one := range due {
		c.want(now, one.key(), one.ifindex, false) // without room, in the next review
	}
}

// expire ends the rows that could not be read again in time. With many rows it takes a
// while, so it happens at most as often as a review.
func (c *Cache) expire(now time.Duration, s *Steps) {
	if now < c.nextExpiry {
		return
	}
	c.nextExpiry = now + scanEvery
	for _, one := range c.rows.all {
		if now >= one.deadline {
			c.finish(one, Unread, now, s)
		}
	}
}

// judge ends rows whose VPC or node has left since the last call.
func (c *Cache) judge(v View, s *Steps) {
	if v.Tx.Revision() == c.revision {
		return
	}
	if len(c.rows.all) == 0 {
		c.revision = v.Tx.Revision()
		return
	}
	c.judgeVPCs(v, s)
	changes, ok := store.ChangesSince(v.Tx, c.revision)
	c.revision = v.Tx.Revision()
	changed := map[string]bool{c.node: !ok}
	for _, change := range changes {
		for _, side := range []any{change.Old, change.New} {
			if node, is := side.(*store.Node); is && node != nil {
				changed[node.Name] = true
			}
		}
	}
	if len(changed) > 1 || changed[c.node] {
		c.judgeNodes(v, changed, s)
	}
}

// judgeVPCs ends the rows of VPCs that this node does not have any more.
func (c *Cache) judgeVPCs(v View, s *Steps) {
	for vni, g := range c.rows.byVNI {
		vpc := vpcOf(v, vni)
		if g.live == 0 || vpc != nil && vpc.UID == g.uid {
			continue
		}
		for _, one := range g.rows {
			c.finish(one, VPCGone, v.Now, s)
		}
	}
}

// judgeNodes ends the rows that lead to one of these nodes, if it does not serve any more
// or has been replaced. A change of this node may change the ways to all.
func (c *Cache) judgeNodes(v View, changed map[string]bool, s *Steps) {
	self := store.GetNode(v.Tx, c.node)
	for _, one := range c.rows.all {
		if !changed[c.node] && !changed[one.node] {
			continue
		}
		node := store.GetNode(v.Tx, one.node)
		at, ok := plan.TunnelAddress(self, node)
		if !ok || at != one.Node || !serves(node) || node.UID != one.nodeUID {
			c.finish(one, NodeGone, v.Now, s)
		}
	}
}
