// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"testing"
	"time"
)

// clock is a time that a test moves.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func TestEstimate_HalfBuilt_SpeedLearned(t *testing.T) {
	work := shares()["kubernetes"].seconds + shares()["helm"].seconds
	for name, factor := range map[string]float64{"as recorded": 1, "a third of it": 3, "faster": 0.5} {
		c := &clock{now: time.Unix(0, 0)}
		e := newEstimate(c.read, 2, "kubernetes", "helm")
		half := time.Duration(work / 2 / 2 * factor * float64(time.Second))
		c.now = c.now.Add(half)
		e.set("kubernetes", 0.5)
		e.set("helm", 0.5)
		got, want := e.left()-afterBuilds, half
		if got < want*8/10 || got > want*12/10 {
			t.Errorf("%s: half of the work took %v, the estimate for the rest is %v", name, half, got)
		}
	}
}

func TestEstimate_AllBuilt_OnlyRestLeft(t *testing.T) {
	c := &clock{now: time.Unix(0, 0)}
	e := newEstimate(c.read, 2, "kubernetes", "helm")
	before := e.left()
	e.compiled("kubernetes", 100)
	if now := e.left(); now >= before {
		t.Errorf("with 100 packages the rest is %v, before it was %v", now, before)
	}
	e.compiled("kubernetes", 1_000_000)
	if e.left() <= afterBuilds {
		t.Error("a program whose link is still to come counts as built")
	}
	e.compiled("kubernetes", 1)
	e.Built("kubernetes")
	e.Built("coredns") // which was there
	e.Built("helm")
	if e.left() != afterBuilds || e.String() != "about a minute left" {
		t.Errorf("with all built, the rest is %v: %s", e.left(), e)
	}
}

func TestEstimate_Text_RoundedUp(t *testing.T) {
	c := &clock{now: time.Unix(0, 0)}
	e := newEstimate(c.read, 2, "kubernetes") // 300 s and the time for the rest
	if got, want := e.String(), "about 6 min left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var none *Estimate
	none.Built("helm")
	if none.String() != "" {
		t.Errorf("no estimate says %q", none)
	}
}

func TestShares_EachProgram_Recorded(t *testing.T) {
	for _, p := range Programs() {
		if shares()[p.Name].seconds == 0 || shares()[p.Name].packages == 0 {
			t.Errorf("no share is recorded for %s: its part of an estimate is nothing", p.Name)
		}
	}
}
