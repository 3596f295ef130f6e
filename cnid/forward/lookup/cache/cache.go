// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// Key names an address of a VPC by the VPC's VNI.
type Key struct {
	VNI uint32
	IP  netip.Addr
}

// Question is for the Address of an IP in a VPC.
type Question struct {
	Key
	// VPC and UID name the VPC that had the VNI when the question was asked.
	VPC, UID string
}

// Result names the outcome of a question, as the label of a metric.
type Result string

// All results of questions.
const (
	Found    Result = "found"
	NotFound Result = "not_found"
	// Refused: the API server has too much to do (429).
	Refused Result = "refused"
	// Slow: no answer came in time.
	Slow Result = "slow"
	// Failed: any other error.
	Failed Result = "error"
)

// Results lists all results.
func Results() []Result { return []Result{Found, NotFound, Refused, Slow, Failed} }

// Answer is the answer to a question.
type Answer struct {
	Question
	Result Result
	// Address is nil unless the Result is Found.
	Address *store.Address
}

// Cause is why a row ended, as the label of a metric.
type Cause string

// All causes.
const (
	// Returned: the row's node has returned a packet.
	Returned Cause = "returned"
	// Absent: the Address does not exist any more.
	Absent Cause = "not_found"
	// Unusable: the Address leads to no other node of Alioth's any more.
	Unusable Cause = "unusable"
	// Unused: no packet has used it since it was read.
	Unused Cause = "unused"
	// Unread: it could not be read again in time.
	Unread Cause = "unread"
	// NodeGone: the node is deleted, fenced, NotReady, or has another address.
	NodeGone Cause = "node"
	// VPCGone: the VPC has left this node.
	VPCGone Cause = "vpc"
	// Full: there were too many rows.
	Full Cause = "full"
	// Lost: the row was deleted from the table, not by the daemon.
	Lost Cause = "lost"
)

// Causes are all causes.
func Causes() []Cause {
	return []Cause{Returned, Absent, Unusable, Unused, Unread, NodeGone, VPCGone, Full, Lost}
}

// View holds the inputs of an event: the time, the rows of the store and the VPCs of the node.
type View struct {
	// Now is the time since the boot (CLOCK_MONOTONIC).
	Now time.Duration
	Tx  store.ReadTx
	Sources
}

// Sources know the VPCs of the node.
type Sources interface {
	// Hosts reports whether the node has a VPC, by its name, and whether its row in View.Tx is
	// confirmed.
	Hosts(vpc string) bool
}

// Steps lists the consequences of an event: the caller puts rows, then deletes rows, and then asks
// questions.
type Steps struct {
	Put    []state.Cached
	Delete []Key
	Ask    []Question
	// Ended has a cause for each row that packets no longer use.
	Ended []Cause
	// OverBudget counts misses that find no room in the queue.
	OverBudget int
}

// Cache are the cached rows of a node. Its methods must not be called concurrently. The
// caller takes the steps before the next call, and calls Deleted for each row that it has
// deleted. A step that fails is found and repeated by Scanned.
type Cache struct {
	// node is the name of this node.
	node string
	rand *rand.Rand
	rows rows
	// asked has the keys that wait for an answer, or must not be asked for yet.
	asked   map[Key]*asked
	waiting queue
	budget  budget
	// revision is the store's revision at the last judgement of the rows.
	revision uint64
	// nextScan is when rows are compared with the table, nextExpiry when those end that were
	// not read again, nextSweep when questions are forgotten.
	nextScan, nextExpiry, nextSweep time.Duration
}

// New returns the cache of a node without rows.
func New(node string, random *rand.Rand) *Cache {
	return &Cache{
		node:    node,
		rand:    random,
		rows:    newRows(),
		asked:   map[Key]*asked{},
		waiting: newQueue(),
		budget:  newBudget(),
	}
}

// VNIs returns the VNIs of all rows that the table has or may have, ascending.
func (c *Cache) VNIs() []uint32 { return slices.Sorted(maps.Keys(c.rows.byVNI)) }

// Len returns the number of these rows.
func (c *Cache) Len() int { return len(c.rows.all) }

// Next is the time at which to call Tick, or Scanned if it is due then; false: nothing is.
func (c *Cache) Next() (time.Duration, bool) {
	var due []time.Duration
	if len(c.rows.all) > 0 {
		due = append(due, c.nextScan)
	}
	if len(c.rows.leaving) > 0 {
		due = append(due, c.rows.nextEnd)
	}
	if at, ok := c.nextAsk(); ok {
		due = append(due, at)
	}
	if len(due) == 0 {
		return 0, false
	}
	return slices.Min(due), true
}

// Tick is called when something is due.
func (c *Cache) Tick(v View) (s Steps) {
	c.judge(v, &s)
	c.expire(v.Now, &s)
	c.proceed(v, &s)
	return s
}

// Changed is called after a change of the store, or of the VPCs of the node.
func (c *Cache) Changed(v View) (s Steps) {
	c.judgeVPCs(v, &s)
	c.judge(v, &s)
	c.proceed(v, &s)
	return s
}
