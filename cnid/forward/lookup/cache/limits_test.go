// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

func TestCache_VPCOrInterfaceFull_LeastUsedEvicted(t *testing.T) {
	w := newWorld(t)
	w.vpc("red", "red-1", 8)
	add := func(vni uint32, vpc string, i, ifindex int) {
		w.address(vpc, nth(i), 1)
		w.miss(vni, nth(i), ifindex)
		w.pass(100*time.Millisecond, true)
	}
	live := func(vni uint32) (count int) {
		for key, row := range w.table {
			if key.VNI == vni && !row.Gone {
				count++
			}
		}
		return count
	}
	add(8, "red", 0, 9)
	for i := range perInterface {
		add(7, "blue", i, 5)
	}
	w.use(7, nth(0))
	w.pass(scanEvery, true)
	add(7, "blue", perInterface, 5)
	w.leadsTo(7, nth(0), 1, "used just now")
	w.leadsTo(7, nth(1), -1, "unused longest")
	w.leadsTo(7, nth(2), 1, "unused a little less long")
	if live(7) != perInterface || w.ended[Full] != 1 {
		t.Errorf("%d rows of an interface, ended %v", live(7), w.ended)
	}
	for i := perInterface + 1; i < perVPC+2; i++ {
		add(7, "blue", i, 100+i)
	}
	w.leadsTo(7, nth(2), -1, "the VPC is full")
	w.leadsTo(8, nth(0), 1, "another VPC")
	if live(7) != perVPC || w.ended[Full] != 2 {
		t.Errorf("%d rows of a VPC, ended %v", live(7), w.ended)
	}
}

func TestCache_TableFull_LargestVPCLosesRow(t *testing.T) {
	w := newWorld(t)
	const many = 100
	for vni := range many {
		w.vpc(fmt.Sprintf("v%d", vni), fmt.Sprintf("v%d-1", vni), uint32(1000+vni))
	}
	w.changed()
	w.cache = New(self, w.cache.rand)
	for i := range RowsAtMost - 1 {
		key := Key{uint32(1000 + i%many), nth(i)}
		w.table[key] = state.Cached{VNI: key.VNI, IP: key.IP, Node: nodeRow(1).Addresses[0], Used: w.now}
	}
	key := Key{1003, nth(1 << 20)} // one more than the others
	w.table[key] = state.Cached{VNI: key.VNI, IP: key.IP, Node: nodeRow(1).Addresses[0], Used: w.now - time.Second}
	w.adopt()
	w.address("blue", there, 2)
	w.miss(7, there, 5)
	w.answer(Found)
	w.leadsTo(7, there, -1, "without room")
	w.leadsTo(key.VNI, key.IP, -1, "the row that makes room")
	if len(w.table) != RowsAtMost || w.ended[Full] != 1 {
		t.Fatalf("%d rows, ended %v", len(w.table), w.ended)
	}
	w.pass(time.Second, false)
	w.miss(7, there, 5)
	w.answer(Found)
	w.leadsTo(7, there, 2, "once there is room")
	if len(w.table) > RowsAtMost {
		t.Errorf("%d rows", len(w.table))
	}
}

func TestCache_DaemonStart_RowsRereadInFiveMinutes(t *testing.T) {
	w := emptyWorld(t, 3)
	for i := range 4 {
		w.node(i, i != 3)
	}
	w.nodeIs(2, func(n *store.Node) { n.OutOfService = true })
	w.vpc("blue", "blue-1", 7)
	w.vpc("red", "red-1", 8)
	w.left["red"] = true
	row := func(vni uint32, i, node int, change func(*state.Cached)) {
		one := state.Cached{VNI: vni, IP: nth(i), Node: nodeRow(node).Addresses[0], Used: w.now}
		change(&one)
		w.table[Key{vni, nth(i)}] = one
	}
	const kept = perVPC
	same := func(*state.Cached) {}
	for i := range kept {
		row(7, i, 1, same)
		w.address("blue", nth(i), 1)
	}
	row(7, 2000, 2, same)                                                                             // fenced
	row(7, 2001, 3, same)                                                                             // NotReady
	row(7, 2002, 0, same)                                                                             // ourselves
	row(7, 2003, 9, same)                                                                             // nobody
	row(8, 2004, 1, same)                                                                             // not here
	row(9, 2005, 1, same)                                                                             // of no VPC
	row(7, 2006, 1, func(c *state.Cached) { c.Gone, c.Until = true, w.now-time.Minute })              // long gone
	row(7, 2007, 1, func(c *state.Cached) { c.Gone, c.Until = true, w.now+500*time.Hour })            // of a wrong clock
	row(7, 2008, 1, func(c *state.Cached) { c.Used = w.now - time.Hour })                             // unused
	row(7, 2009, 1, func(c *state.Cached) { c.Used, c.Until = w.now+time.Hour, w.now+500*time.Hour }) // of the future
	w.adopt()
	began := w.now
	for i := range kept {
		w.leadsTo(7, nth(i), 1, "at the start")
	}
	for i := 2000; i < 2006; i++ {
		w.leadsTo(7, nth(i), -1, "at the start")
	}
	if diff := cmp.Diff([]uint32{7, 8, 9}, w.cache.VNIs()); diff != "" {
		t.Errorf("VNIs at the start: %s", diff)
	}
	w.pass(time.Second, true)
	if len(w.table) != kept+2 {
		t.Errorf("a second later there are %d rows, want %d", len(w.table), kept+2)
	}
	for w.now < began+5*time.Minute {
		for i := range kept {
			w.use(7, nth(i))
		}
		w.pass(time.Second, true)
	}
	read := map[netip.Addr]bool{}
	perSecond := map[time.Duration]int{}
	for _, one := range w.asks {
		read[one.IP] = true
		perSecond[(one.at-began)/(10*time.Second)]++
	}
	for i := range kept {
		if !read[nth(i)] {
			t.Errorf("%s was not read again", nth(i))
		}
		w.leadsTo(7, nth(i), 1, "after five minutes")
	}
	for at, count := range perSecond {
		if count > kept/4 {
			t.Errorf("%d questions in the 10 s from %s on", count, at*10)
		}
	}
	w.leadsTo(7, nth(2008), -1, "unused")
	w.leadsTo(7, nth(2009), -1, "not there in the API")
}
