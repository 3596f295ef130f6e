// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package broadcast

import (
	"context"
	"sync/atomic"
	"testing"
)

// door is a gate that a test opens.
type door struct {
	open    atomic.Bool
	changed Signal
	asked   atomic.Int64
}

func (d *door) gate() (bool, <-chan struct{}) {
	changed := d.changed.Next()
	d.asked.Add(1)
	return d.open.Load(), changed
}

func (d *door) set(open bool) {
	d.open.Store(open)
	d.changed.Send()
}

func TestGate_Wait_ReturnsWhenItOpens(t *testing.T) {
	var d door
	waited := make(chan bool)
	go func() { waited <- Gate(d.gate).Wait(t.Context()) }()
	for d.asked.Load() == 0 {
		d.set(false)
	}
	d.set(true)
	if !<-waited {
		t.Error("the gate counts as closed")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if d.set(false); Gate(d.gate).Wait(ended) {
		t.Error("the gate counts as open after the end")
	}
}

func TestGate_And_IsOpenWhileBothAre(t *testing.T) {
	var a, b door
	both := Gate(a.gate).And(b.gate)
	for _, open := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		a.set(open[0])
		b.set(open[1])
		if both.IsOpen() != (open[0] && open[1]) {
			t.Errorf("%v: open %t", open, both.IsOpen())
		}
	}
	if a.set(false); !Gate(Open).IsOpen() {
		t.Error("the open gate is closed")
	}
	_, changed := both()
	a.set(true)
	<-changed
	_, changed = both()
	b.set(false)
	<-changed
}
