// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// Addresses of tests.
var (
	there  = ip("10.0.0.1")
	there6 = ip("fd00::1")
)

// nth is an address of the VPCs.
func nth(i int) netip.Addr {
	var raw [4]byte
	binary.BigEndian.PutUint32(raw[:], 10<<24|uint32(i))
	return netip.AddrFrom4(raw)
}

// learned is a world with a row to node 1.
func learned(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.address("blue", there, 1)
	w.miss(7, there, 5)
	w.answer(Found)
	w.leadsTo(7, there, 1, "after the answer")
	return w
}

func TestMiss_NewAddress_OneQuestionThenRow(t *testing.T) {
	w := newWorld(t)
	w.address("blue", there, 1)
	w.address("blue", there6, 2)
	for range 3 {
		w.miss(7, there, 5)
		w.miss(7, netip.AddrFrom16(there.As16()), 6) // the same in another form
		w.miss(7, there6, 5)
	}
	want := []Question{{Key{7, there}, "blue", "blue-1"}, {Key{7, there6}, "blue", "blue-1"}}
	if diff := cmp.Diff(want, w.pending, cmp.Comparer(func(a, b Question) bool { return a == b })); diff != "" {
		t.Fatalf("questions (-want +got):\n%s", diff)
	}
	w.answer(Found)
	w.answer(Found)
	w.leadsTo(7, there, 1, "IPv4")
	w.leadsTo(7, there6, 2, "IPv6")
	row := w.live(7, there)
	if row.MAC != (state.MAC{2, 0, 10, 0, 0, 1}) || row.Used != w.now || row.Before.IsValid() {
		t.Errorf("the row is %+v", row)
	}
}

func TestMiss_AddressOutsideNodeVPC_NotAsked(t *testing.T) {
	w := newWorld(t)
	w.vpc("red", "red-1", 8)
	w.left["red"] = true
	for _, miss := range []struct {
		vni uint32
		ip  netip.Addr
	}{{0, there}, {9, there}, {8, there}, {7, ip("11.0.0.1")}, {7, netip.Addr{}}, {7, ip("fd00::1%../../nodes")}, {7, ip("fe80::1")}} {
		w.miss(miss.vni, miss.ip, 5)
	}
	if len(w.asks) != 0 || w.over != 0 || len(w.cache.asked) != 0 {
		t.Errorf("asked %v", w.asks)
	}
}

func TestAnswer_EachNode_OnlyServingNodeGetsRow(t *testing.T) {
	for name, change := range map[string]func(w *world, a *store.Address){
		"of this node":               func(_ *world, a *store.Address) { a.Node = self },
		"of an unknown node":         func(_ *world, a *store.Address) { a.Node = "node9" },
		"of a node that is NotReady": func(w *world, _ *store.Address) { w.node(1, false) },
		"of a fenced node":           func(w *world, _ *store.Address) { w.nodeIs(1, func(n *store.Node) { n.OutOfService = true }) },
		"of a node that ends":        func(w *world, _ *store.Address) { w.nodeIs(1, func(n *store.Node) { n.Deleting = true }) },
		"of a node with our address": func(w *world, _ *store.Address) {
			w.nodeIs(1, func(n *store.Node) { n.Addresses = nodeRow(0).Addresses })
		},
		"of another CNI plugin":       func(_ *world, a *store.Address) { a.External = true },
		"of a Service":                func(_ *world, a *store.Address) { a.Node, a.MAC = "", "" },
		"with no MAC":                 func(_ *world, a *store.Address) { a.MAC = "" },
		"of another VPC":              func(_ *world, a *store.Address) { a.VPC = "red" },
		"of a network":                func(_ *world, a *store.Address) { a.Network = store.NetworkRef{UID: "blue"} },
		"with another IP":             func(_ *world, a *store.Address) { a.IP = nth(2) },
		"that names a pod here":       func(w *world, a *store.Address) { w.podHere(a.Holder.UID) },
		"of a VPC that has just left": func(w *world, _ *store.Address) { w.left["blue"] = true },
	} {
		w := newWorld(t)
		a := w.address("blue", there, 1)
		w.miss(7, there, 5)
		change(w, a)
		w.answer(Found)
		w.leadsTo(7, there, -1, "an Address "+name)
		if len(w.table) != 0 || w.cache.Len() != 0 {
			t.Errorf("an Address %s: the table has %v", name, w.table)
		}
	}
}

// nodeIs changes a node.
func (w *world) nodeIs(i int, change func(*store.Node)) {
	row := nodeRow(i)
	change(row)
	w.put(func(tx store.Tx) error { return store.PutNode(tx, row) })
}

// podHere makes a pod of this node that holds nothing.
func (w *world) podHere(uid string) {
	w.put(func(tx store.Tx) error {
		return store.PutPod(tx, &store.Pod{Meta: store.Meta{UID: uid}, Namespace: "a", Name: "b", Node: self})
	})
}

func TestAnswer_VPCRecreatedMeanwhile_NoRow(t *testing.T) {
	for name, again := range map[string]struct {
		uid string
		vni uint32
	}{"with another VNI": {"blue-2", 9}, "with the same VNI": {"blue-2", 7}, "moved to another VNI": {"blue-1", 9}} {
		w := newWorld(t)
		w.address("blue", there, 1)
		w.miss(7, there, 5)
		w.put(func(tx store.Tx) error { store.DeleteVPC(tx, "blue", "blue-1"); return nil })
		w.vpc("blue", again.uid, again.vni)
		w.answer(Found)
		if len(w.table) != 0 {
			t.Errorf("%s: the table has %v", name, w.table)
		}
		w.pass(time.Second, false)
		w.miss(again.vni, there, 5)
		w.answer(Found)
		w.leadsTo(again.vni, there, 1, name+", asked again")
	}
}

func TestQuestion_SameAnswerAgain_PauseDoubles(t *testing.T) {
	w := newWorld(t)
	w.address("blue", there, 1)
	pauses := func(result Result) (list []time.Duration) {
		var last time.Duration
		for range 7 {
			for len(w.pending) == 0 { // a packet every 100 ms
				w.miss(7, there, 5)
				if len(w.pending) == 0 {
					w.pass(100*time.Millisecond, false)
				}
			}
			list = append(list, w.now-last)
			last = w.now
			w.answer(result)
		}
		return list[1:]
	}
	const s = time.Second
	doubling, fixed := []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s}, slices.Repeat([]time.Duration{5 * s}, 6)
	for _, step := range []struct {
		what   string
		change func()
		result Result
		want   []time.Duration
	}{
		{"found", func() {}, Found, doubling},
		{"found on another node", func() { w.address("blue", there, 2) }, Found, doubling},
		{"refused", func() {}, Refused, doubling},
		{"slow", func() {}, Slow, doubling},
		{"failed", func() {}, Failed, doubling},
		{"not found", func() { clear(w.api) }, Found, fixed},
	} {
		step.change()
		if diff := cmp.Diff(step.want, pauses(step.result)); diff != "" {
			t.Errorf("%s: pauses (-want +got):\n%s", step.what, diff)
		}
	}
	w.pass(time.Minute, false)
	w.miss(7, nth(77), 5)
	if len(w.cache.asked) != 1 {
		t.Errorf("%d questions are remembered after all pauses", len(w.cache.asked))
	}
}

func TestAnswer_Invalid_NothingChanged(t *testing.T) {
	for _, result := range []Result{Refused, Slow, Failed} {
		w := learned(t)
		w.pass(2*time.Second, false)
		w.miss(7, there, 5)
		w.answer(result)
		w.leadsTo(7, there, 1, string(result))
	}
}

func TestRow_AddressGone_DeletedAndRememberedOneSecond(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		cause  Cause
	}{
		"the Address is gone": {func(w *world) { clear(w.api); w.pass(time.Second, false); w.miss(7, there, 5); w.answer(Found) }, Absent},
		"the Address is ours now": {func(w *world) {
			w.address("blue", there, 0)
			w.pass(time.Second, false)
			w.miss(7, there, 5)
			w.answer(Found)
		}, Unusable},
		"the node is deleted": {func(w *world) {
			w.put(func(tx store.Tx) error { store.DeleteNode(tx, "node1", "node1-1"); return nil })
		}, NodeGone},
		"the node was replaced":      {func(w *world) { w.nodeIs(1, func(n *store.Node) { n.UID = "node1-2" }) }, NodeGone},
		"the node is NotReady":       {func(w *world) { w.node(1, false) }, NodeGone},
		"the node is fenced":         {func(w *world) { w.nodeIs(1, func(n *store.Node) { n.OutOfService = true }) }, NodeGone},
		"the node's address changes": {func(w *world) { w.nodeIs(1, func(n *store.Node) { n.Addresses = []netip.Addr{ip("192.0.2.99")} }) }, NodeGone},
		"our families change":        {func(w *world) { w.nodeIs(0, func(n *store.Node) { n.Addresses = []netip.Addr{ip("2001:db8::1")} }) }, NodeGone},
		"the VPC leaves the node":    {func(w *world) { w.left["blue"] = true }, VPCGone},
		"the VPC is deleted":         {func(w *world) { w.put(func(tx store.Tx) error { store.DeleteVPC(tx, "blue", "blue-1"); return nil }) }, VPCGone},
		"the VPC was replaced":       {func(w *world) { w.vpc("blue", "blue-2", 7) }, VPCGone},
		"the VPC has another VNI":    {func(w *world) { w.vpc("blue", "blue-1", 8) }, VPCGone},
	} {
		w := learned(t)
		tc.change(w)
		w.changed()
		row := w.table[Key{7, there}]
		if !row.Gone || row.Until != w.now+time.Second || row.Node != nodeRow(1).Addresses[0] {
			t.Errorf("%s: the row is %+v", name, row)
		}
		if diff := cmp.Diff(map[Cause]int{tc.cause: 1}, w.ended); diff != "" {
			t.Errorf("%s: causes (-want +got):\n%s", name, diff)
		}
		w.pass(time.Second-1, false)
		if diff := cmp.Diff([]uint32{7}, w.cache.VNIs()); diff != "" {
			t.Errorf("%s: VNIs before the row is deleted: %s", name, diff)
		}
		w.pass(1, false)
		if len(w.table) != 0 || len(w.cache.VNIs()) != 0 || w.cache.Len() != 0 {
			t.Errorf("%s: after a second the table has %v", name, w.table)
		}
	}
}

// An event may come with a later snapshot than the last change that was told.
func TestEvent_AnyOrder_CurrentStoreUsed(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"a VPC":  func(w *world) { w.vpc("blue", "blue-1", 8) },
		"a node": func(w *world) { w.node(1, false) },
	} {
		for event, happen := range map[string]func(w *world){
			"a miss":    func(w *world) { w.miss(8, nth(9), 5) },
			"a tick":    func(w *world) { w.take(w.cache.Tick(w.view())) },
			"a scan":    func(w *world) { w.take(w.cache.Scanned(w.view(), w.rows())) },
			"no scan":   func(w *world) { w.take(w.cache.Unscanned(w.view())) },
			"an answer": func(w *world) { w.answer(Slow) },
		} {
			w := learned(t)
			w.miss(7, nth(3), 5)
			change(w)
			happen(w)
			w.leadsTo(7, there, -1, fmt.Sprintf("%s after %s has changed", event, name))
		}
	}
}

func TestRow_OtherNodeEnds_Kept(t *testing.T) {
	w := learned(t)
	w.node(2, false)
	w.vpc("red", "red-1", 8)
	w.nodeIs(1, func(n *store.Node) { n.Selection = 3 })
	w.changed()
	w.leadsTo(7, there, 1, "after changes of others")
}

func TestRow_AddressMoves_OldNodeKeptOneSecond(t *testing.T) {
	w := learned(t)
	w.address("blue", there, 2)
	w.pass(2*time.Second, false)
	w.miss(7, there, 5)
	w.answer(Found)
	row := w.live(7, there)
	if row == nil || row.Node != nodeRow(2).Addresses[0] || row.Before != nodeRow(1).Addresses[0] || row.Until != w.now+time.Second {
		t.Errorf("the row is %+v", row)
	}
	w.pass(500*time.Millisecond, false)
	w.returned(7, there)
	w.pass(scanEvery, false) // finds the mark, and asks again
	if w.ended[Returned] != 1 {
		t.Errorf("ended: %v", w.ended)
	}
}

func TestRow_ReturnedByNode_AskedAgainAndDeleted(t *testing.T) {
	w := learned(t)
	w.pass(2*time.Second, false)
	w.returned(7, there)
	w.pass(scanEvery, false)
	if len(w.pending) != 1 {
		t.Fatalf("questions: %v", w.pending)
	}
	if _, there := w.table[Key{7, there}]; there {
		t.Error("the row is there after its time")
	}
	w.address("blue", there, 2)
	w.answer(Found)
	w.leadsTo(7, there, 2, "after the new answer")

	// The API says the same as before: the row counts again, as a miss needs one.
	w.pass(time.Minute, false)
	w.returned(7, there)
	w.miss(7, there, 5)
	w.answer(Found)
	w.leadsTo(7, there, 2, "after the same answer")
}

func TestRow_UsedAndUnused_RereadOrDeleted(t *testing.T) {
	w := newWorld(t)
	for i := range 200 {
		w.address("blue", nth(i), 1)
		w.miss(7, nth(i), 5+i%20)
		w.pass(50*time.Millisecond, true)
	}
	learnedAt, asked := w.now, len(w.asks)
	times := map[time.Duration]bool{}
	for w.now < learnedAt+6*time.Minute {
		for i := range 100 {
			if w.live(7, nth(i)) != nil {
				w.use(7, nth(i))
			}
		}
		w.pass(time.Second, true)
	}
	for i := range 200 {
		if i < 100 {
			w.leadsTo(7, nth(i), 1, "used")
		} else {
			w.leadsTo(7, nth(i), -1, "unused")
		}
	}
	for _, one := range w.asks[asked:] {
		times[one.at] = true
		if at := one.at - learnedAt; at < 4*time.Minute-10*time.Second || at > 6*time.Minute {
			t.Errorf("%s was read again after %s", one.IP, at)
		}
	}
	if len(w.asks) != asked+100 || len(times) < 10 || w.ended[Unused] != 100 || len(w.table) != 100 {
		t.Errorf("%d questions at %d times; ended: %v; %d rows", len(w.asks)-asked, len(times), w.ended, len(w.table))
	}
}

func TestAnswer_Unchanged_MarkNotOverwritten(t *testing.T) {
	w := learned(t)
	for len(w.pending) == 0 {
		w.use(7, there)
		w.pass(time.Second, false)
	}
	w.returned(7, there) // after the review, before the answer
	w.answer(Found)
	w.leadsTo(7, there, -1, "marked while it was read again")
	w.pass(scanEvery, false)
	if w.ended[Returned] != 1 {
		t.Errorf("ended: %v", w.ended)
	}
}

func TestRow_RereadFails_EndsWithinSixMinutes(t *testing.T) {
	for name, answer := range map[string]func(w *world){
		"the API server is away":    func(w *world) { w.answer(Failed) },
		"it refuses":                func(w *world) { w.answer(Refused) },
		"it never answers":          func(*world) {},
		"it answers, other than so": func(w *world) { w.answer(Slow) },
	} {
		w := learned(t)
		began := w.now
		for w.live(7, there) != nil && w.now < began+10*time.Minute {
			w.use(7, there)
			w.pass(100*time.Millisecond, false)
			for len(w.pending) > 0 && name != "it never answers" {
				answer(w)
			}
		}
		if after := w.now - began; after > 6*time.Minute || after < 5*time.Minute+40*time.Second || w.ended[Unread] != 1 {
			t.Errorf("%s: it ended after %s, causes %v", name, after, w.ended)
		}
	}
}

func TestStep_Failure_Repeated(t *testing.T) {
	w := learned(t)
	w.node(1, false)
	w.broken = true
	w.changed()
	w.leadsTo(7, there, 1, "the table fails")
	w.pass(time.Minute, false)
	if diff := cmp.Diff([]uint32{7}, w.cache.VNIs()); diff != "" {
		t.Errorf("VNIs while the row can't be deleted: %s", diff)
	}
	w.broken = false
	w.pass(scanEvery, false)
	if len(w.table) != 0 || w.cache.Len() != 0 {
		t.Errorf("the table has %v", w.table)
	}
}

func TestTable_ForeignChange_Undone(t *testing.T) {
	w := learned(t)
	w.table[Key{7, nth(50)}] = state.Cached{VNI: 7, IP: nth(50), Node: nodeRow(2).Addresses[0]}
	forged := w.table[Key{7, there}]
	forged.Node = nodeRow(3).Addresses[0]
	w.table[Key{7, there}] = forged
	w.pass(scanEvery, false)
	w.leadsTo(7, nth(50), -1, "a row of nobody")
	w.leadsTo(7, there, 1, "a row that was changed")
	clear(w.table)
	w.pass(scanEvery, false)
	if w.cache.Len() != 0 || w.ended[Lost] != 1 {
		t.Errorf("%d rows, ended %v", w.cache.Len(), w.ended)
	}
}

func TestAnswer_Unasked_Ignored(t *testing.T) {
	w := newWorld(t)
	a := w.address("blue", there, 1)
	q := Question{Key{7, there}, "blue", "blue-1"}
	w.take(w.cache.Answered(w.view(), Answer{Question: q, Result: Found, Address: a}))
	w.miss(7, there, 5)
	w.answer(Found)
	w.take(w.cache.Answered(w.view(), Answer{Question: q, Result: NotFound}))
	w.leadsTo(7, there, 1, "after a second answer")
}
