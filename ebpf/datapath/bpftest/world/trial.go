// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// Traces has the content of the maps, row by row, of every map that a packet may leave something
// in.
type Traces struct {
	Counters, Drops map[string]uint64
	Rows            map[string]map[string]string
}

// Traces reads the traces of the packets so far in the maps.
func (w *World) Traces(t testing.TB) Traces {
	t.Helper()
	left := Traces{
		Counters: bpftest.Counts(t, w.Datapath),
		Drops:    bpftest.Whose(t, w.Datapath),
		Rows:     map[string]map[string]string{},
	}
	for name, m := range bpf.Pinnable(w.Objects) {
		switch m.Type() {
		case ebpf.RingBuf, ebpf.PerCPUArray, ebpf.PerCPUHash, ebpf.SkStorage:
			continue // counted, or looked at by a test of its own
		}
		rows := map[string]string{}
		var key, value []byte
		iter := m.Iterate()
		for iter.Next(&key, &value) {
			rows[string(key)] = string(value)
		}
		if err := iter.Err(); err != nil {
			t.Fatalf("read map %s: %v", name, err)
		}
		left.Rows[name] = rows
	}
	return left
}

// Trial makes a trial for all questions of the test, because making it takes long.
func (w *World) Trial(t testing.TB) *trial.Trial {
	t.Helper()
	if w.asked != nil {
		return w.asked
	}
	spec, err := programs.Specify(w.Config)
	bpftest.Must(t, err)
	trial, err := trial.New(spec, bpf.Pinnable(w.Objects), w.Config.VXLANIfindex)
	bpftest.Must(t, err)
	t.Cleanup(trial.Close)
	w.asked = trial
	return trial
}

// checkTrial compares a trial of a packet from a pod with the table's entry for the real
// program, and makes sure that the trial leaves no trace. A trial does not see the state
// of flows, so cases with such state are not compared.
func (w *World) checkTrial(t testing.TB, trial *trial.Trial, c Case) {
	t.Helper()
	before := w.Traces(t)
	outcome, err := trial.FromPod(c.Device, c.In)
	if err != nil {
		t.Fatalf("trial: %v", err)
	}
	if d := cmp.Diff(before, w.Traces(t)); d != "" {
		t.Errorf("a trial leaves traces (-before +after):\n%s", d)
	}
	if len(before.Rows[bpf.ConnectionsMap])+len(before.Rows[bpf.FragmentsMap]) > 0 {
		return // a trial does not know these rows
	}
	if d := cmp.Diff(c.Counts, One("from_pod/"+outcome.Reason.String())); d != "" {
		t.Errorf("trial (-table +trial):\n%s", d)
	}
	if outcome.Mark != c.Mark {
		t.Errorf("trial: mark is %#x, want %#x", outcome.Mark, c.Mark)
	}
	want := c.Out
	if want == nil {
		want = c.In
	}
	if !bytes.Equal(outcome.Frame, want) {
		t.Errorf("trial: packet out is\n%x, want\n%x", outcome.Frame, want)
	}
}
