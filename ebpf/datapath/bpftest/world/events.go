// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// WatchFlows lets the programs tell of flows for longer than the test takes.
func (w *World) WatchFlows(t testing.TB) *Events {
	t.Helper()
	w.TellFlowsFor(t, time.Hour)
	return w.ReadFlows(t)
}

// Events are the reports of programs, together with the ring that they lie in.
type Events struct {
	*telemetry.EventReader
	Ring *ringbuf.Reader
}

// ReadFlows reads the flows that the programs report from now on.
func (w *World) ReadFlows(t testing.TB) *Events {
	t.Helper()
	flows, err := w.Flows()
	bpftest.Must(t, err)
	return ReadRing(t, flows, w.Objects.AliothFlows)
}

// ReadRing reads the events of a ring together with the ring's state.
func ReadRing(t testing.TB, reader *telemetry.EventReader, m *ebpf.Map) *Events {
	t.Helper()
	t.Cleanup(func() { reader.Close() })
	ring, err := ringbuf.NewReader(m)
	bpftest.Must(t, err)
	t.Cleanup(func() { ring.Close() })
	return &Events{reader, ring}
}

// TellFlowsFor lets the programs tell of flows for a time from now on.
func (w *World) TellFlowsFor(t testing.TB, duration time.Duration) {
	t.Helper()
	now, err := datapath.MonotonicNow()
	bpftest.Must(t, err)
	bpftest.Must(t, w.TellFlows(now+duration))
}

// Told returns the events since the last call. A program has written all of its events when it
// ends.
func (r *Events) Told(t testing.TB) (list []telemetry.Event) {
	t.Helper()
	for r.Ring.AvailableBytes() > 0 {
		event, err := r.Read()
		bpftest.Must(t, err)
		if event.Time == 0 {
			t.Errorf("%+v has no time", event)
		}
		event.Time = 0
		list = append(list, event)
	}
	return list
}
