// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// thief has the token of one node's daemon. It writes what admission lets it write: all of
// the node's enactments but the slots. Other nodes change as they should.
type thief struct {
	*cluster
	r    *rand.Rand
	node string
	plan plan
}

// plan names the strategy of a thief.
type plan int

const (
	// anything: it writes whatever there is.
	anything plan = iota
	// fail: it says that it failed, as soon as that counts, and for ever.
	fail
	// wait: it waits for a slot, lets it end, and begins again with a new enactment.
	wait
	plans
)

func newThief(t *testing.T, seed uint64, nodes int) *thief {
	t.Helper()
	var names []string
	for i := range nodes {
		names = append(names, "n"+strconv.Itoa(i+1))
	}
	r := rand.New(rand.NewPCG(seed, 11))
	return &thief{cluster: newCluster(t, names...), r: r, node: names[r.IntN(nodes)], plan: plan(seed) % plans}
}

// act writes what the plan needs.
func (f *thief) act() {
	for one, row := range f.policies {
		e := nmstate.Enactment{
			Name: v1beta1.EnactmentName(f.node, one.Kind, one.Name), Node: f.node,
			Policy: one, PolicyUID: row.UID, PolicyGeneration: row.Generation,
			Phase: pending, Reason: "MaxUnavailableLimitReached",
		}
		old := f.enactments[e.Name]
		switch {
		case f.plan == anything:
			f.anything(e)
			continue
		case f.plan == wait && old != nil && old.Slot.Holder != "" && !old.Slot.Expires.After(f.now):
			delete(f.enactments, e.Name) // it is new again
		case f.plan == fail && old != nil && old.Slot.Holder != "":
			e.Phase, e.Reason, e.Message = failing, "FailedToConfigure", strings.Repeat("x", 2000)
		}
		f.write(e)
	}
}

// anything writes something into one of the node's enactments, makes it, or deletes it.
func (f *thief) anything(e nmstate.Enactment) {
	if old := f.enactments[e.Name]; old != nil {
		e = *old
	}
	switch f.r.IntN(7) {
	case 0:
		delete(f.enactments, e.Name)
		return
	case 1:
		f.handle(f.node) // as its daemon would
		return
	case 2:
		e.PolicyGeneration += int64(f.r.IntN(3) - 1)
	case 3:
		e.PolicyUID += []string{"", "x"}[f.r.IntN(2)]
	case 4:
		e.Phase, e.Reason = pending, "MaxUnavailableLimitReached"
	default:
		e.Phase = []nmstate.Phase{pending, progressing, available, failing, aborted, ""}[f.r.IntN(6)]
	}
	f.write(e)
}

// round is a minute in that all do their part, the thief more than once.
func (f *thief) round() {
	f.t.Helper()
	f.act()
	for node := range f.nodes {
		if node != f.node && !f.nodes[node].Down {
			f.handle(node)
			f.enforce(node)
			f.handle(node)
		}
	}
	for one := range f.policies {
		f.act()
		f.roll(one)
	}
	f.now = f.now.Add(time.Minute)
}

// others counts the enactments of other nodes that are so.
func (f *thief) others(is func(*nmstate.Enactment) bool) int {
	count := 0
	for _, e := range f.enactments {
		if e.Node != f.node && is(e) {
			count++
		}
	}
	return count
}

// TestRollout_HostileNode_OthersContinue: whatever a node's token writes, all other nodes get all policies,
// and never more of them change than may.
func TestRollout_HostileNode_OthersContinue(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			f := newThief(t, seed, 4)
			for i, limit := range []nmstate.Unavailable{"1", "2", "50%"} {
				f.put("p"+strconv.Itoa(i), "interfaces: [{name: d"+strconv.Itoa(i)+", type: dummy}]", func(row *nmstate.Policy) { row.Unavailable = limit })
			}
			have := 3 * (len(f.nodes) - 1)
			done := func(e *nmstate.Enactment) bool { return e.Phase == available }
			for range 300 {
				if f.others(done) == have {
					return
				}
				f.round()
			}
			t.Errorf("node %s stops others: %s", f.node, words(t, f.enactments))
		})
	}
}

// TestRollout_WrongPolicy_ReachesFewNodes although a node says that it has it, that it failed, or that
// it waits.
func TestRollout_WrongPolicy_ReachesFewNodes(t *testing.T) {
	for seed := range uint64(30) {
		for _, limit := range []nmstate.Unavailable{"1", "2", "50%"} {
			t.Run(string(limit)+" "+strconv.FormatUint(seed, 10), func(t *testing.T) {
				f := newThief(t, seed, 8)
				for node := range f.nodes {
					f.fails[node] = true
				}
				f.put("wrong", "interfaces: [{name: eth1, mtu: 9000}]", func(row *nmstate.Policy) { row.Unavailable = limit })
				most, _ := policy.Limit(limit, len(f.nodes))
				for range 60 {
					f.round()
					reached := f.others(func(e *nmstate.Enactment) bool { return e.Applied != nil })
					if reached > most+1 {
						t.Fatalf("%d nodes have the wrong policy, want at most %d", reached, most+1)
					}
				}
			})
		}
	}
}

// TestRollout_NodesGoDown_Stopped with as many as may change at the same time, and goes on
// when they are back.
func TestRollout_NodesGoDown_Stopped(t *testing.T) {
	for _, limit := range []nmstate.Unavailable{"1", "2", "50%"} {
		t.Run(string(limit), func(t *testing.T) {
			f := newThief(t, 1, 6)
			f.put("heavy", "interfaces: [{name: eth1, mtu: 9000}]", func(row *nmstate.Policy) { row.Unavailable = limit })
			most, _ := policy.Limit(limit, len(f.nodes))
			set := func(down func(string) bool) {
				for name, node := range f.nodes {
					node.Down = down(name)
					f.nodes[name] = node
				}
			}
			for range 60 {
				for node := range f.nodes {
					if node != f.node && !f.nodes[node].Down {
						f.handle(node)
					}
				}
				set(func(name string) bool {
					e := f.enactment(name, "heavy")
					return name != f.node && e != nil && e.Phase == progressing
				})
				if down := f.others(func(e *nmstate.Enactment) bool { return e.Phase == progressing }); down > most {
					t.Fatalf("%d nodes are down, want at most %d", down, most)
				}
				f.roll(ref("heavy"))
				f.now = f.now.Add(time.Minute)
			}
			set(func(string) bool { return false })
			f.settle()
			if got := f.others(func(e *nmstate.Enactment) bool { return e.Phase == available }); got != len(f.nodes)-1 {
				t.Errorf("when they are back: %s", words(t, f.enactments))
			}
		})
	}
}
