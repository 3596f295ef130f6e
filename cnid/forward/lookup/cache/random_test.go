// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/soak"
)

// chaos is a world with random events, and the rules that must hold in it.
type chaos struct {
	*world
	seed uint64
	rand *rand.Rand
	// running are the keys of pending questions, last the time of the last question of a
	// key, held the time until which a key must not be asked for.
	running map[Key]bool
	last    map[Key]time.Duration
	held    map[Key]time.Duration
	answers map[Key]signature
	pauses  map[Key]time.Duration
	// read is when the row of a key was read or adopted.
	read map[Key]time.Duration
	// vnis is the last VNI that was given, mended when what failed has been repeated.
	vnis   uint32
	mended time.Duration
	// away has the API server give no answer.
	away bool
}

const (
	chaosVPCs, chaosNodes = 3, 5
	chaosInterfaces       = 12
)

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	c := &chaos{
		world: emptyWorld(t, seed), seed: seed, rand: rand.New(rand.NewPCG(seed, 7)), running: map[Key]bool{}, last: map[Key]time.Duration{},
		held: map[Key]time.Duration{}, answers: map[Key]signature{}, pauses: map[Key]time.Duration{}, read: map[Key]time.Duration{}, vnis: 100,
	}
	for i := range chaosNodes {
		c.node(i, true)
	}
	for i := range chaosVPCs {
		c.remake(i)
	}
	for range c.rand.IntN(400) {
		key := Key{101 + uint32(c.rand.IntN(chaosVPCs+1)), nth(c.rand.IntN(2000))}
		c.table[key] = state.Cached{VNI: key.VNI, IP: key.IP, Node: nodeRow(c.rand.IntN(chaosNodes + 1)).Addresses[0], Used: c.now, Gone: c.rand.IntN(9) == 0}
		c.read[key] = c.now - time.Minute // all are read in five minutes
	}
	c.check = c.asksFor
	c.adopt()
	return c
}

func (c *chaos) name(i int) string { return fmt.Sprintf("v%d", i) }

// remake makes a VPC, perhaps in place of another one of the name.
func (c *chaos) remake(i int) {
	c.vnis++
	uid := fmt.Sprintf("%s-%d", c.name(i), c.vnis)
	c.put(func(tx store.Tx) error {
		if old := store.GetVPC(tx, c.name(i)); old != nil {
			store.DeleteVPC(tx, old.Name, old.UID)
		}
		return nil
	})
	c.vpc(c.name(i), uid, c.vnis)
}

func (c *chaos) errorf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("seed %d, at %s: %s", c.seed, c.now, fmt.Sprintf(format, args...))
}

// asksFor checks one question against the budgets and pauses.
func (c *chaos) asksFor(a ask) {
	c.t.Helper()
	last, asked := c.last[a.Key]
	switch {
	case c.running[a.Key]:
		c.errorf("a second question for %v", a.Key)
	case asked && a.at-last < time.Second:
		c.errorf("two questions for %v in %s", a.Key, a.at-last)
	case a.at < c.held[a.Key]:
		c.errorf("a question for %v, %s too early", a.Key, c.held[a.Key]-a.at)
	}
	c.running[a.Key], c.last[a.Key] = true, a.at
	node, vpc := 0, 0
	for _, q := range c.pending {
		node++
		if q.VNI == a.VNI {
			vpc++
		}
	}
	if node > 16 || vpc > 8 {
		c.errorf("%d questions at once, %d of a VPC", node, vpc)
	}
	node, vpc = 0, 0
	for i := len(c.asks) - 1; i >= 0 && c.asks[i].at > a.at-time.Second; i-- {
		node++
		if c.asks[i].VNI == a.VNI {
			vpc++
		}
	}
	if node > 50 || vpc > 25 {
		c.errorf("%d questions in a second, %d of a VPC", node, vpc)
	}
}

// reply answers one of the pending questions.
func (c *chaos) reply() {
	c.t.Helper()
	if len(c.pending) == 0 {
		return
	}
	at := c.rand.IntN(len(c.pending))
	c.pending[0], c.pending[at] = c.pending[at], c.pending[0]
	q := c.pending[0]
	result := Found
	if c.away || c.rand.IntN(4) == 0 {
		result = []Result{Refused, Slow, Failed}[c.rand.IntN(3)]
	}
	got := signature{result: result}
	if row := c.api[nameOf(q)]; result == Found && row != nil {
		got = signatureOf(Answer{Result: Found, Address: row})
	} else if result == Found {
		got.result = NotFound
	}
	delete(c.running, q.Key)
	pause := time.Second
	if got.result == NotFound {
		pause = 5 * time.Second
	} else if got == c.answers[q.Key] && c.now-c.held[q.Key] < 30*time.Second {
		pause = min(2*c.pauses[q.Key], 30*time.Second)
	}
	c.held[q.Key], c.answers[q.Key], c.pauses[q.Key] = c.now+pause, got, pause
	if got.result == Found {
		c.read[q.Key] = c.now
	}
	c.answer(result)
}

func nameOf(q Question) string { return q.VPC + "." + q.IP.String() }

// step lets one thing happen.
func (c *chaos) step() {
	c.t.Helper()
	vpc, i := c.rand.IntN(chaosVPCs), c.rand.IntN(2000)
	if c.rand.IntN(3) == 0 {
		i %= 20
	}
	var vni uint32
	c.store.View(func(tx store.ReadTx) { vni = store.GetVPC(tx, c.name(vpc)).VNI })
	key := Key{vni, nth(i)}
	switch n := c.rand.IntN(1000); {
	case n < 500:
		c.miss(vni, nth(i), 1+vpc*chaosInterfaces+c.rand.IntN(chaosInterfaces))
	case n < 800:
		c.reply()
	case n < 850:
		if c.live(vni, nth(i)) != nil {
			c.use(key.VNI, key.IP)
		}
	case n < 870:
		if c.live(vni, nth(i)) != nil {
			c.returned(key.VNI, key.IP)
		}
	case n < 920:
		c.address(c.name(vpc), nth(i), c.rand.IntN(chaosNodes+1))
	case n < 940:
		delete(c.api, c.name(vpc)+"."+nth(i).String())
	case n < 960:
		c.disturb(vpc)
	case n < 995:
		c.wait(time.Duration(c.rand.ExpFloat64() * float64(200*time.Millisecond)))
	default:
		c.linger(time.Duration(c.rand.ExpFloat64() * float64(20*time.Second)))
	}
}

// disturb changes what rows depend on, now and then.
func (c *chaos) disturb(vpc int) {
	c.t.Helper()
	switch n := c.rand.IntN(40); {
	case n < 3:
		c.node(1+c.rand.IntN(chaosNodes-1), c.rand.IntN(3) > 0)
	case n < 4:
		c.remake(vpc)
	case n < 5 || c.left[c.name(vpc)]:
		c.left[c.name(vpc)] = !c.left[c.name(vpc)]
	case n < 6 || c.broken:
		c.broken, c.mended = !c.broken, c.now+scanEvery+grace
	case n < 7:
		c.away = true
		c.linger(7 * time.Minute)
		c.away = false
	}
	c.changed()
}

// wait lets time pass, a moment at a time.
func (c *chaos) wait(d time.Duration) {
	c.t.Helper()
	for end := c.now + d; c.now < end; {
		c.pass(min(end-c.now, 100*time.Millisecond), false)
	}
}

// linger lets more time pass. Meanwhile questions are answered and some rows are used.
func (c *chaos) linger(d time.Duration) {
	c.t.Helper()
	for end := c.now + d; c.now < end; c.wait(100 * time.Millisecond) {
		for range c.rand.IntN(1 + len(c.pending)) {
			c.reply()
		}
		for key, row := range c.table {
			if !row.Gone && key.IP.As4()[3]%2 == 0 {
				c.use(key.VNI, key.IP)
			}
		}
	}
	c.holds()
}

// holds checks everything that must hold at any time.
func (c *chaos) holds() {
	c.t.Helper()
	perVNI, vnis := map[uint32]int{}, map[uint32]bool{}
	for _, vni := range c.cache.VNIs() {
		vnis[vni] = true
	}
	good := map[netip.Addr]bool{}
	v := c.view()
	for _, node := range store.ListNodes(v.Tx) {
		good[node.Addresses[0]] = node.Ready && node.Name != self
	}
	for key, row := range c.table {
		if !vnis[key.VNI] {
			c.errorf("the table has a row of %d, and VNIs are %v", key.VNI, c.cache.VNIs())
		}
		if row.Gone || c.broken || c.now < c.mended {
			continue
		}
		perVNI[key.VNI]++
		vpc := store.VPCByVNI(v.Tx, key.VNI)
		if vpc == nil || c.left[vpc.Name] {
			c.errorf("a row of the VNI %d, which is not here", key.VNI)
		}
		if !good[row.Node] {
			c.errorf("a row leads to %s, which is no node that serves", row.Node)
		}
		if since := c.now - c.read[key]; since > 6*time.Minute {
			c.errorf("the row of %v was read %s ago", key, since)
		}
	}
	for vni, count := range perVNI {
		if count > 1024 {
			c.errorf("%d rows of %d", count, vni)
		}
	}
	c.bounded()
}

// bounded checks that nothing in the memory of a cache grows beyond its bound.
func (c *chaos) bounded() {
	c.t.Helper()
	waiting := 0
	for _, keys := range c.cache.waiting.waiting {
		waiting += len(keys)
	}
	sources, turns := len(c.cache.waiting.waiting), 0
	for _, vni := range c.cache.waiting.vpcs {
		turns += len(c.cache.waiting.turns[vni])
	}
	if waiting > 64*sources || sources > 2*(chaosVPCs+1)*(chaosInterfaces+1)*20 || sources != turns || len(c.cache.waiting.vpcs) != len(c.cache.waiting.turns) {
		c.errorf("%d keys of %d sources wait, %d of them have a turn", waiting, sources, turns)
	}
	// Waiting keys, running questions, and the questions of each second while they are remembered.
	if most := waiting + 16 + 50*62; len(c.cache.asked) > most {
		c.errorf("%d questions are remembered, at most %d should be", len(c.cache.asked), most)
	}
	if len(c.cache.budget.vpcs) > 51+16 {
		c.errorf("%d VPCs have a budget", len(c.cache.budget.vpcs))
	}
	leaving, groups, live := 0, 0, 0
	for _, g := range c.cache.rows.byVNI {
		groups, live = groups+len(g.rows), live+g.live
	}
	for _, one := range c.cache.rows.all {
		if one.Gone {
			leaving++
		}
	}
	if leaving != len(c.cache.rows.leaving) || groups != len(c.cache.rows.all) || live != groups-leaving {
		c.errorf("%d rows, %d in groups, %d used, %d leaving of %d", len(c.cache.rows.all), groups, live, len(c.cache.rows.leaving), leaving)
	}
}

func TestCache_RandomEvents_BudgetsKeptNoStaleRows(t *testing.T) {
	first, count := soak.Worlds(t, 200, 8)
	steps := soak.Or(t, 40000, 12000)
	var mu sync.Mutex
	ended := map[Cause]int{}
	t.Run("worlds", func(t *testing.T) {
		for n := range uint64(count) {
			seed := first + n
			t.Run(soak.World(seed), func(t *testing.T) {
				t.Parallel()
				c := newChaos(t, seed)
				for i := range steps {
					c.step()
					if i%20 == 0 {
						c.holds()
					}
				}
				if len(c.asks) < steps/100 || c.now < 70*time.Minute {
					t.Errorf("seed %d: only %d questions in %s", seed, len(c.asks), c.now-time.Hour)
				}
				mu.Lock()
				defer mu.Unlock()
				for cause, count := range c.ended {
					ended[cause] += count
				}
			})
		}
	})
	for _, cause := range []Cause{Returned, Absent, Unusable, Unused, Unread, NodeGone, VPCGone, Lost} {
		if ended[cause] == 0 && count > 1 {
			t.Errorf("no row ended as %s: %v", cause, ended)
		}
	}
}

// TestMiss_Flood_QuestionsBounded: a tenant that sprays addresses takes its share of the
// questions and no memory.
func TestMiss_Flood_QuestionsBounded(t *testing.T) {
	misses := soak.Or(t, 1<<20, 1<<17)
	for name, answered := range map[string]bool{"answered": true, "never answered": false} {
		w := newWorld(t)
		w.vpc("red", "red-1", 8)
		w.address("red", there, 1)
		c := &chaos{world: w, last: map[Key]time.Duration{}, running: map[Key]bool{}, held: map[Key]time.Duration{}}
		random := rand.New(rand.NewPCG(1, 2))
		if answered {
			c.check = c.asksFor
		}
		for i := range misses {
			w.miss(7, nth(random.IntN(1<<24)), 1+random.IntN(8))
			if answered && len(w.pending) > 0 {
				delete(c.running, w.pending[0].Key)
				w.answer(Found)
			}
			if i%64 == 0 {
				w.pass(time.Millisecond, false)
				c.bounded()
			}
		}
		w.pass(10*time.Millisecond, false)
		if !answered && len(w.asks) != 8 || answered && len(w.asks) < 25*misses/64/1000 {
			t.Errorf("%s: %d questions", name, len(w.asks))
		}
		if len(w.table) != 0 || len(w.cache.waiting.waiting) > 8 || w.over < misses/2 {
			t.Errorf("%s: %d rows, %d sources wait, %d misses over the budget", name, len(w.table), len(w.cache.waiting.waiting), w.over)
		}
		// Another VPC has its half.
		asked := w.now
		w.pending = nil
		w.miss(8, there, 99)
		if len(w.pending) != 1 || w.now != asked {
			t.Fatalf("%s: another VPC waits", name)
		}
		w.answer(Found)
		w.leadsTo(8, there, 1, name)
	}
}

// TestMiss_SeveralInterfaces_ServedInTurn: of two interfaces of a VPC, one that sprays addresses holds up
// the other by one question at most.
func TestMiss_SeveralInterfaces_ServedInTurn(t *testing.T) {
	w := newWorld(t)
	for i := range 200 {
		w.miss(7, nth(1000+i), 1)
	}
	for i := range 4 {
		w.miss(7, nth(i), 2)
	}
	asked := len(w.asks)
	for len(w.asks) < asked+8 {
		w.pass(100*time.Millisecond, true)
	}
	quiet := 0
	for _, one := range w.asks[asked : asked+8] {
		if one.IP.Less(nth(1000)) {
			quiet++
		}
	}
	if quiet != 4 {
		t.Errorf("of the next 8 questions %d are of the quiet interface: %v", quiet, w.asks[asked:])
	}
}

// TestMiss_SeveralVPC_ServedInTurn: two VPCs with many interfaces that spray addresses hold up a third one
// by as many questions.
func TestMiss_SeveralVPC_ServedInTurn(t *testing.T) {
	w := newWorld(t)
	w.vpc("red", "red-1", 8)
	w.vpc("green", "green-1", 9)
	for i := range 400 {
		w.miss(7+uint32(i%2), nth(1000+i), 1+i%100)
	}
	w.address("green", there, 1)
	w.miss(9, there, 200)
	asked := len(w.asks)
	if asked != 16 {
		t.Fatalf("%d questions", asked)
	}
	for range 3 {
		w.answer(Found)
	}
	if !slices.ContainsFunc(w.asks[asked:], func(one ask) bool { return one.VNI == 9 }) {
		t.Errorf("the next questions are %v", w.asks[asked:])
	}
}

// FuzzMisses: whatever programs report, it becomes no question outside of VPCs of the node,
// and a cache keeps its bounds.
func FuzzMisses(f *testing.F) {
	f.Add(uint32(7), []byte{10, 0, 0, 1}, 5, "", uint8(0))
	f.Add(uint32(7), []byte{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, -1, "eth0", uint8(1))
	f.Fuzz(func(t *testing.T, vni uint32, raw []byte, ifindex int, zone string, result uint8) {
		w := newWorld(t)
		addr, _ := netip.AddrFromSlice(raw)
		if addr.Is6() {
			addr = addr.WithZone(zone)
		}
		w.address("blue", there, 1)
		w.miss(vni, addr, ifindex)
		for _, q := range w.pending {
			if q.VNI != 7 || q.IP.Zone() != "" || !q.IP.IsValid() || q.VPC != "blue" {
				t.Errorf("asked %+v", q)
			}
		}
		for len(w.pending) > 0 {
			w.answer([]Result{Found, NotFound, Refused, Slow, Failed, "else"}[result%6])
		}
		for key := range w.table {
			if key != (Key{7, there}) {
				t.Errorf("the table has %v", key)
			}
		}
	})
}
