// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/alioth-net/alioth/cnid/forward/lookup/cache"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/soak"
)

// asking is a Resolver whose questions a test answers.
type asking struct {
	mu        sync.Mutex
	questions []cache.Question
	answers   chan cache.Answer
	// slow is how many questions ended without an answer.
	slow int
}

func newAsking() *asking { return &asking{answers: make(chan cache.Answer)} }

func (a *asking) Resolve(ctx context.Context, q cache.Question) cache.Answer {
	a.mu.Lock()
	a.questions = append(a.questions, q)
	a.mu.Unlock()
	select {
	case answer := <-a.answers:
		answer.Question = q
		return answer
	case <-ctx.Done():
		a.mu.Lock()
		defer a.mu.Unlock()
		a.slow++
		return cache.Answer{Question: q, Result: cache.Slow}
	}
}

func (a *asking) asked() []cache.Question {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.questions)
}

// found is the answer that an address of the VPC blue is on the other node.
func found(addr netip.Addr) cache.Answer {
	return cache.Answer{Result: cache.Found, Address: &store.Address{Meta: store.Meta{UID: "a"}, VPC: "blue", IP: addr, MAC: "02:00:00:00:00:01", Node: other}}
}

// clock is the time of a bubble, since a boot that was an hour before.
func clock() func() time.Duration {
	boot := time.Now().Add(-time.Hour)
	return func() time.Duration { return time.Since(boot) }
}

var there = ip("10.0.0.1")

// bubble runs a test with a clock that advances only while all goroutines wait.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// pass lets time pass, and everything happen that is due.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestLookupLoop_Miss_OneQuestionThenRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAsking()
		w := ready(t, api, clock())
		for range 3 {
			w.miss(there)
		}
		api.answers <- found(there)
		synctest.Wait()
		row, ok := w.table.of(there)
		want := state.Cached{VNI: 7, IP: there, Node: ip("192.0.2.2"), MAC: state.MAC{2, 0, 0, 0, 0, 1}, Used: time.Hour}
		if !ok || row != want {
			t.Errorf("the row is %+v, want %+v", row, want)
		}
		if asked := api.asked(); len(asked) != 1 || asked[0] != (cache.Question{Key: cache.Key{VNI: 7, IP: there}, VPC: "blue", UID: "blue-1"}) {
			t.Errorf("asked %+v", asked)
		}
		if w.count("found") != 1 || testutil.ToFloat64(w.cfg.Metrics.rows) != 1 {
			t.Errorf("%d found, %v rows", w.count("found"), testutil.ToFloat64(w.cfg.Metrics.rows))
		}
	})
}

func TestLookupLoop_RowsNotAdopted_Waits(t *testing.T) {
	old := state.Cached{VNI: 7, IP: ip("10.0.0.9"), Node: ip("192.0.2.2"), Used: time.Hour}
	stale := state.Cached{VNI: 7, IP: ip("10.0.0.8"), Node: ip("192.0.2.77"), Used: time.Hour}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newAsking(), clock(), old, stale)
		w.vpc(t, "blue", "blue-1", 7)
		w.host("blue", true)
		pass(time.Minute)
		if adopted, _ := w.Adopted(); adopted || w.table.reads != 0 {
			t.Error("rows were read before the nodes")
		}
		w.sync()
		w.table.fail(errBroken)
		w.open()
		pass(retry / 2)
		adopted, changed := w.Adopted()
		if adopted || w.table.reads != 1 {
			t.Errorf("adopted without rows: %v, read %d times", adopted, w.table.reads)
		}
		w.table.fail(nil)
		<-changed
		synctest.Wait()
		if adopted, _ := w.Adopted(); !adopted {
			t.Error("the rows are not adopted")
		}
		if _, ok := w.table.of(old.IP); !ok {
			t.Error("a good row is gone")
		}
		if _, ok := w.table.of(stale.IP); ok {
			t.Error("a row to an unknown node is used")
		}
	})
}

func TestLookupLoop_StopBeforeSync_Ends(t *testing.T) {
	bubble(t, "before the objects", func(t *testing.T) { newWorld(t, newAsking(), clock()) })
	bubble(t, "before the datapath", func(t *testing.T) {
		newWorld(t, newAsking(), clock()).sync()
		synctest.Wait()
	})
	bubble(t, "with questions under way", func(t *testing.T) {
		w := ready(t, newAsking(), clock())
		for i := range 40 {
			w.miss(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}))
		}
		synctest.Wait()
	})
}

func TestLookupLoop_SlowQuestions_TimeAndBudgetBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAsking()
		w := ready(t, api, clock())
		for i := range 40 {
			w.miss(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}))
		}
		synctest.Wait()
		if got := len(api.asked()); got != atOnce/2 {
			t.Errorf("%d questions of a VPC at once, want %d", got, atOnce/2)
		}
		if got := w.count("over_budget"); got != 40-atOnce/2-16 {
			t.Errorf("%d misses over the budget", got)
		}
		pass(slowAfter)
		if got := w.count("slow"); got != atOnce/2 {
			t.Errorf("%d slow questions", got)
		}
		if got := len(api.asked()); got != atOnce {
			t.Errorf("%d questions after the first have ended, want %d", got, atOnce)
		}
	})
}

// TestLookupLoop_MissFlood_GoroutinesBounded: each question has one, and nothing else.
func TestLookupLoop_MissFlood_GoroutinesBounded(t *testing.T) {
	misses := soak.Or(t, 1<<20, 1<<15)
	synctest.Test(t, func(t *testing.T) {
		w := ready(t, newAsking(), clock())
		synctest.Wait()
		before := runtime.NumGoroutine()
		random := rand.New(rand.NewPCG(1, 1))
		for i := range misses {
			n := random.Uint32()
			w.miss(netip.AddrFrom4([4]byte{10, byte(n), byte(n >> 8), byte(n >> 16)}))
			if i%256 == 0 {
				pass(time.Millisecond)
				if more := runtime.NumGoroutine() - before; more > atOnce {
					t.Fatalf("%d goroutines more after %d misses", more, i)
				}
			}
		}
		if w.count("over_budget") < misses/2 || w.table.reads != 1 {
			t.Errorf("%d misses over the budget, the table was read %d times", w.count("over_budget"), w.table.reads)
		}
	})
}

func TestLookupLoop_StoreEntryGone_RowDeleted(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, w *world){
		"the node is NotReady": func(t *testing.T, w *world) { w.node(t, other, 2, false) },
		"the VPC leaves":       func(_ *testing.T, w *world) { w.host("blue", false) },
		"the VPC is new":       func(t *testing.T, w *world) { w.vpc(t, "blue", "blue-2", 9) },
	} {
		bubble(t, name, func(t *testing.T) {
			api := newAsking()
			w := ready(t, api, clock())
			w.miss(there)
			api.answers <- found(there)
			synctest.Wait()
			change(t, w)
			synctest.Wait()
			if row, ok := w.table.of(there); ok || !row.Gone {
				t.Errorf("packets use the row %+v", row)
			}
			pass(time.Second)
			if w.table.has(7) || w.endedBy(cache.NodeGone)+w.endedBy(cache.VPCGone) != 1 {
				t.Error("the row is there after a second, or is not counted")
			}
		})
	}
}

func TestLookupLoop_VPCRecreatedDuringQuestion_NoRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAsking()
		w := ready(t, api, clock())
		w.miss(there)
		synctest.Wait()
		w.vpc(t, "blue", "blue-2", 9)
		api.answers <- found(there)
		synctest.Wait()
		if w.table.has(7) || w.table.has(9) {
			t.Errorf("rows: %v", w.table.rows)
		}
	})
}

func TestLookupLoop_Failure_Retried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAsking()
		w := ready(t, api, clock())
		w.reports.errs <- errBroken // the ring goes on
		w.miss(there)
		api.answers <- found(there)
		synctest.Wait()
		w.table.fail(errBroken)
		w.node(t, other, 2, false)
		pass(20 * time.Second)
		if _, ok := w.table.of(there); !ok {
			t.Fatal("the table does not fail")
		}
		if !slices.Contains(w.VNIs(func() []uint32 { return nil }), 7) {
			t.Error("the VNI of a row that can't be deleted is not reported")
		}
		w.table.fail(nil)
		pass(10 * time.Second)
		if w.table.has(7) {
			t.Error("the row is there still")
		}
	})
}

func TestLookupLoop_DatapathReopened_NewOneUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAsking()
		w := ready(t, api, clock())
		synctest.Wait()
		close(w.reports.closed)
		w.table, w.reports = newMemory(), newReports()
		w.open()
		w.miss(there)
		api.answers <- found(there)
		synctest.Wait()
		if _, ok := w.table.of(there); !ok {
			t.Error("the new table has no row")
		}
	})
}

// A VNI that a reply lacks may be assigned to another VPC, which must meet no row of the VPC
// that had it.
func TestLookupLoop_VPCLeaves_VNIReportedWhileRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAsking()
		w := ready(t, api, clock())
		w.vpc(t, "red", "red-1", 3)
		w.host("red", true)
		w.miss(there)
		synctest.Wait()
		// While the passes are asked, a row is put and the VPC leaves.
		got := w.VNIs(func() []uint32 {
			api.answers <- found(there)
			synctest.Wait()
			w.host("blue", false)
			return w.hosts()
		})
		if want := []uint32{3, 7}; !slices.Equal(got, want) || !w.table.has(7) {
			t.Errorf("VNIs are %v, want %v; the table has a row: %v", got, want, w.table.has(7))
		}
		for slices.Contains(w.VNIs(w.hosts), 7) {
			if !w.table.has(7) {
				t.Fatal("the VNI is reported without a row")
			}
			pass(100 * time.Millisecond)
		}
		if w.table.has(7) {
			t.Error("a row is there whose VNI is not reported")
		}
	})
}

// TestLookupLoop_VNIUnreported_NoRowPut has a VPC come and leave at any moment of a
// question.
func TestLookupLoop_VNIUnreported_NoRowPut(t *testing.T) {
	for at := range 8 {
		synctest.Test(t, func(t *testing.T) {
			api := newAsking()
			w := ready(t, api, clock())
			steps := []func(){
				func() { w.miss(there) },
				synctest.Wait,
				func() {
					if len(api.asked()) == 1 {
						api.answers <- found(there)
					}
				},
				synctest.Wait,
			}
			for i, step := range steps {
				if i == at%4 {
					w.host("blue", false)
				}
				if at >= 4 {
					synctest.Wait()
				}
				step()
				reported := slices.Contains(w.VNIs(w.hosts), 7)
				if w.table.has(7) && !reported {
					t.Errorf("left before step %d: after step %d a row's VNI is not reported", at%4, i)
				}
			}
			pass(3 * time.Second)
			if w.table.has(7) {
				t.Errorf("left before step %d: there is a row", at%4)
			}
		})
	}
}
