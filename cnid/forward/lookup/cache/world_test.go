// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

var ip = netip.MustParseAddr

// self is the node of the cache.
const self = "node0"

// world simulates the node of a cache: the store, the table, and an API server that answers when
// the test has it answer.
type world struct {
	t     testing.TB
	cache *Cache
	store *store.Store
	now   time.Duration
	// left are VPCs that the node does not have.
	left  map[string]bool
	table map[Key]state.Cached
	// api has the Addresses that exist, by name.
	api map[string]*store.Address
	// pending are the questions without an answer, asks all with their times.
	pending []Question
	asks    []ask
	ended   map[Cause]int
	over    int
	// broken has steps on the table fail.
	broken bool
	// check is called for each question that is asked.
	check func(ask)
}

type ask struct {
	Question
	at time.Duration
}

// newWorld returns a world with the VPC blue of the VNI 7, and three other nodes.
// Hosts implements Sources.
func (w *world) Hosts(vpc string) bool { return !w.left[vpc] }

func newWorld(t testing.TB) *world {
	t.Helper()
	w := emptyWorld(t, 1)
	w.vpc("blue", "blue-1", 7)
	for i := range 4 {
		w.node(i, true)
	}
	w.adopt()
	return w
}

func emptyWorld(t testing.TB, seed uint64) *world {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		t: t, store: s, now: time.Hour, cache: New(self, rand.New(rand.NewPCG(seed, seed))),
		left: map[string]bool{}, table: map[Key]state.Cached{}, api: map[string]*store.Address{}, ended: map[Cause]int{},
		check: func(ask) {},
	}
}

func (w *world) put(do func(tx store.Tx) error) {
	w.t.Helper()
	if err := w.store.Update(do); err != nil {
		w.t.Fatal(err)
	}
}

func nodeRow(i int) *store.Node {
	name := fmt.Sprintf("node%d", i)
	return &store.Node{Meta: store.Meta{UID: name + "-1"}, Name: name, Ready: true, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})}}
}

// node makes a node, or changes whether it is ready.
func (w *world) node(i int, ready bool) {
	row := nodeRow(i)
	row.Ready = ready
	w.put(func(tx store.Tx) error { return store.PutNode(tx, row) })
}

func (w *world) vpc(name, uid string, vni uint32) {
	row := &store.VPC{
		Meta:     store.Meta{UID: uid},
		Name:     name,
		VNI:      vni,
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")},
	}
	w.put(func(tx store.Tx) error { return store.PutVPC(tx, row) })
}

// address makes an Address on a node, and replaces the Address that has its IP.
func (w *world) address(vpc string, addr netip.Addr, node int) *store.Address {
	name := v1alpha1.AddressName(vpc, addr)
	mac := addr.As16()
	row := &store.Address{
		Meta: store.Meta{UID: fmt.Sprintf("%s-on-%d", name, node)}, Name: name, VPC: vpc, IP: addr, Node: fmt.Sprintf("node%d", node),
		MAC: fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", mac[12], mac[13], mac[14], mac[15]), Holder: store.Holder{Kind: store.HolderPod, UID: name},
	}
	w.api[name] = row
	return row
}

func (w *world) view() (v View) {
	v = View{Now: w.now, Sources: w}
	w.store.View(func(tx store.ReadTx) { v.Tx = tx })
	return v
}

func (w *world) adopt() { w.take(w.cache.Adopt(w.view(), w.rows())) }

func (w *world) rows() (list []state.Cached) {
	for _, row := range w.table {
		list = append(list, row)
	}
	return list
}

// take takes steps as the caller of a cache has to.
func (w *world) take(s Steps) {
	w.t.Helper()
	for _, row := range s.Put {
		if !w.broken {
			w.table[Key{row.VNI, row.IP}] = row
		}
	}
	for _, key := range s.Delete {
		if !w.broken {
			delete(w.table, key)
			w.cache.Deleted(key)
		}
	}
	for _, q := range s.Ask {
		w.pending = append(w.pending, q)
		w.asks = append(w.asks, ask{q, w.now})
		w.check(ask{q, w.now})
	}
	for _, cause := range s.Ended {
		w.ended[cause]++
	}
	w.over += s.OverBudget
}

func (w *world) miss(vni uint32, addr netip.Addr, ifindex int) {
	w.t.Helper()
	w.take(w.cache.Missed(w.view(), state.Miss{VNI: vni, IP: addr, Ifindex: ifindex}))
}

func (w *world) changed() {
	w.t.Helper()
	w.take(w.cache.Changed(w.view()))
}

// answer answers the first pending question: with what exists, or with another result.
func (w *world) answer(result Result) {
	w.t.Helper()
	if len(w.pending) == 0 {
		w.t.Fatal("no question is pending")
	}
	a := Answer{Question: w.pending[0], Result: result}
	w.pending = w.pending[1:]
	if result == Found {
		if a.Address = w.api[v1alpha1.AddressName(a.VPC, a.IP)]; a.Address == nil {
			a.Result = NotFound
		}
	}
	w.take(w.cache.Answered(w.view(), a))
}

// pass lets time pass: everything happens at its time. Questions are answered at once if
// answered is true.
func (w *world) pass(d time.Duration, answered bool) {
	w.t.Helper()
	end := w.now + d
	for {
		for answered && len(w.pending) > 0 {
			w.answer(Found)
		}
		at, ok := w.cache.Next()
		if !ok || at > end {
			break
		}
		w.now = max(w.now, at)
		w.due()
	}
	w.now = end
}

// due runs the work that is due now.
func (w *world) due() {
	w.t.Helper()
	before, scan := w.now, w.cache.ScanDue(w.now)
	if scan && w.broken {
		w.take(w.cache.Unscanned(w.view()))
	} else if scan {
		w.take(w.cache.Scanned(w.view(), w.rows()))
	} else {
		w.take(w.cache.Tick(w.view()))
	}
	if at, ok := w.cache.Next(); ok && at <= before {
		w.t.Fatalf("at %s the cache wants to be called at %s again", before, at)
	}
}

// use has a packet use a row.
func (w *world) use(vni uint32, addr netip.Addr) {
	if row, ok := w.table[Key{vni, addr}]; ok {
		row.Used = w.now
		w.table[Key{vni, addr}] = row
	}
}

// returned has the node of a row return a packet.
func (w *world) returned(vni uint32, addr netip.Addr) {
	row := w.table[Key{vni, addr}]
	row.Gone, row.Until = true, w.now+time.Second
	w.table[Key{vni, addr}] = row
}

// live is the row that packets use, or nil.
func (w *world) live(vni uint32, addr netip.Addr) *state.Cached {
	row, ok := w.table[Key{vni, addr}]
	if !ok || row.Gone {
		return nil
	}
	return &row
}

// leadsTo fails the test unless packets to an address are sent to a node; -1: to none.
func (w *world) leadsTo(vni uint32, addr netip.Addr, node int, when string) {
	w.t.Helper()
	row := w.live(vni, addr)
	switch {
	case node < 0 && row != nil:
		w.t.Errorf("%s: packets to %s of %d are sent to %s, want no row", when, addr, vni, row.Node)
	case node >= 0 && (row == nil || row.Node != nodeRow(node).Addresses[0]):
		w.t.Errorf("%s: packets to %s of %d have the row %+v, want one to node %d", when, addr, vni, row, node)
	}
}
