// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// Times between two questions for one key.
const (
	// firstPause doubles up to lastPause while the same answer comes.
	firstPause, lastPause = time.Second, 30 * time.Second
	// absentPause follows the answer that the Address does not exist. It does not double: the
	// Address may be created at any time.
	absentPause = 5 * time.Second
	// sweepEvery is how often questions are forgotten whose pauses have passed.
	sweepEvery = time.Second
)

// asked is a key that waits to be asked for or for an answer, or must not be asked for yet.
type asked struct {
	stage   stage
	ifindex int
	// missed reports that a packet has found no row that it may use.
	missed bool
	// last is the answer before, and pause the time after it.
	last  signature
	pause time.Duration
	// until is the end of the pause, forget when last does not matter any more.
	until, forget time.Duration
}

type stage int

const (
	pausing stage = iota
	waits
	runs
)

// signature holds the fields of an answer that decide. Answers with equal signatures are the same.
type signature struct {
	result         Result
	uid, node, mac string
}

func signatureOf(a Answer) signature {
	s := signature{result: a.Result}
	if a.Address != nil {
		s.uid, s.node, s.mac = a.Address.UID, a.Address.Node, a.Address.MAC
	}
	return s
}

// Missed is called for a packet that found no row.
func (c *Cache) Missed(v View, m state.Miss) (s Steps) {
	c.judge(v, &s)
	key := Key{VNI: m.VNI, IP: m.IP.Unmap()}
	// A VPC without a row has left, or the store is behind. The next packet causes a new miss.
	if vpc := vpcOf(v, m.VNI); vpc != nil && within(vpc, key.IP) && !c.want(v.Now, key, m.Ifindex, true) {
		s.OverBudget++
	}
	c.proceed(v, &s)
	return s
}

// vpcOf returns the VPC that this node has of a VNI, or nil.
func vpcOf(v View, vni uint32) *store.VPC {
	vpc := store.VPCByVNI(v.Tx, vni)
	if vpc == nil || !v.Hosts(vpc.Name) {
		return nil
	}
	return vpc
}

// within reports whether an IP is in a range of the VPC. One with a zone never is, so it
// becomes no part of a name.
func within(vpc *store.VPC, ip netip.Addr) bool {
	return slices.ContainsFunc(vpc.Prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// want requests a question for a key, unless one is pending or the key must still pause. It
// returns false if the queue is full. missed reports that a packet needs the row.
func (c *Cache) want(now time.Duration, key Key, ifindex int, missed bool) bool {
	one := c.asked[key]
	switch {
	case one == nil:
		one = &asked{}
	case one.stage != pausing:
		one.missed = one.missed || missed
		return true
	case now < one.until:
		return true
	}
	if !c.waiting.add(source{vni: key.VNI, ifindex: ifindex, again: !missed}, key) {
		return false
	}
	one.stage, one.ifindex, one.missed = waits, ifindex, missed
	c.asked[key] = one
	return true
}

// proceed does what may be done after each event.
func (c *Cache) proceed(v View, s *Steps) {
	s.Delete = append(s.Delete, c.rows.ended(v.Now)...)
	c.sweep(v.Now)
	c.ask(v, s)
}

// ask asks for the keys that wait, as far as the budgets allow.
func (c *Cache) ask(v View, s *Steps) {
	may := func(vni uint32) bool { return c.budget.mayVPC(vni, v.Now) }
	for c.budget.node.may(v.Now) {
		key, ok := c.waiting.take(may)
		if !ok {
			return
		}
		one := c.asked[key]
		vpc := vpcOf(v, key.VNI)
		if vpc == nil {
			one.stage = pausing // it has left meanwhile
			continue
		}
		one.stage = runs
		c.budget.ask(key.VNI, v.Now)
		s.Ask = append(s.Ask, Question{Key: key, VPC: vpc.Name, UID: vpc.UID})
	}
}

// nextAsk is when the next question may be asked; false: nothing waits, or only an answer
// brings the next.
func (c *Cache) nextAsk() (time.Duration, bool) { return c.budget.nextOf(c.waiting.vpcs) }

// Answered is called once for each question.
func (c *Cache) Answered(v View, a Answer) (s Steps) {
	c.judge(v, &s)
	one := c.asked[a.Key]
	if one == nil || one.stage != runs {
		return s
	}
	one.answered(v.Now, signatureOf(a))
	c.budget.answered(a.VNI)
	// A VPC with the same name does not count if its UID or VNI has changed.
	if vpc := vpcOf(v, a.VNI); vpc != nil && vpc.Name == a.VPC && vpc.UID == a.UID {
		c.learn(v, vpc, one, a, &s)
	}
	c.proceed(v, &s)
	return s
}

// answered begins the pause after an answer.
func (o *asked) answered(now time.Duration, got signature) {
	switch {
	case got.result == NotFound:
		o.pause = absentPause
	case got == o.last && o.pause > 0:
		o.pause = min(2*o.pause, lastPause)
	default:
		o.pause = firstPause
	}
	o.stage, o.last = pausing, got
	o.until = now + o.pause
	o.forget = o.until
	if got.result != NotFound {
		o.forget += lastPause
	}
}

// sweep forgets what does not matter any more.
func (c *Cache) sweep(now time.Duration) {
	if now < c.nextSweep {
		return
	}
	c.nextSweep = now + sweepEvery
	for key, one := range c.asked {
		if one.stage == pausing && one.forget <= now {
			delete(c.asked, key)
		}
	}
	c.budget.sweep(now)
}
