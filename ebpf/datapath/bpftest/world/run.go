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

// Traces is what the maps hold, row by row, of every map that a packet may leave
// something in.
type Traces struct {
	Counters, Drops map[string]uint64
	Rows            map[string]map[string]string
}

// Traces reads what the packets so far have left in the maps.
func (w *World) Traces(t testing.TB) Traces {
	t.Helper()
	left := Traces{Counters: bpftest.Counts(t, w.Datapath), Drops: bpftest.Whose(t, w.Datapath), Rows: map[string]map[string]string{}}
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

// Trial makes one, which takes long, to be asked by all of the test.
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

// checkTrial compares a trial of a packet from a pod with what the table says
// of the real program, and makes sure that it leaves no trace. What depends on
// a flow that is there, a trial can't know.
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
		return // of which a trial does not know
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

// What programs return to the hook.
const (
	ActOK       = 0
	ActShot     = 2
	ActRedirect = 7
)

// Run sends one frame through a program, as if seen at the device.
func Run(t testing.TB, p *ebpf.Program, ifindex int, in []byte) (verdict uint32, out []byte, mark uint32) {
	t.Helper()
	return RunMarked(t, p, ifindex, in, 0)
}

// RunMarked does the same with a packet that carries a mark.
func RunMarked(t testing.TB, p *ebpf.Program, ifindex int, in []byte, mark uint32) (verdict uint32, out []byte, after uint32) {
	t.Helper()
	ctx := bpf.Received(ifindex)
	ctx.Mark = mark
	verdict, out, end := RunContext(t, p, in, ctx)
	return verdict, out, end.Mark
}

// RunContext does the same with a packet of which more is known. It returns the
// packet's context after the run.
func RunContext(t testing.TB, p *ebpf.Program, in []byte, ctx bpf.Context) (verdict uint32, out []byte, end bpf.Context) {
	t.Helper()
	opts := &ebpf.RunOptions{
		Data: in, DataOut: make([]byte, len(in)+256), Context: &ctx, ContextOut: &end,
	}
	verdict, err := p.Run(opts)
	if err != nil {
		t.Fatalf("run program on %x, context %+v: %v", in, ctx, err)
	}
	Corpus.add(t, p, in)
	return verdict, opts.DataOut, end
}

// Case is one packet and everything that it may cause.
type Case struct {
	Name    string
	Device  int
	In      []byte
	Verdict uint32
	Out     []byte // nil: as it came in
	Mark    uint32
	Counts  map[string]uint64 // all others stay
}

// Expect runs each case's packet, and compares verdict, packet, mark and all counters. A trial
// of a packet from a pod has to say the same.
func (w *World) Expect(t *testing.T, p *ebpf.Program, cases []Case) {
	t.Helper()
	var trial *trial.Trial
	if p == w.Objects.AliothFromPod {
		trial = w.Trial(t)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			bpftest.Enter(t, w.NS)
			if trial != nil {
				w.checkTrial(t, trial, c)
			}
			before := bpftest.Counts(t, w.Datapath)
			verdict, out, mark := Run(t, p, c.Device, c.In)
			if verdict != c.Verdict {
				t.Errorf("verdict is %d, want %d", verdict, c.Verdict)
			}
			want := c.Out
			if want == nil {
				want = c.In
			}
			if d := cmp.Diff(want, out); d != "" {
				t.Errorf("packet out (-want +got):\n%s", d)
			}
			if mark != c.Mark {
				t.Errorf("mark is %#x, want %#x", mark, c.Mark)
			}
			after := bpftest.Counts(t, w.Datapath)
			if d := cmp.Diff(c.Counts, bpftest.Added(before, after)); d != "" {
				t.Errorf("counters (-want +got):\n%s", d)
			}
			if d := cmp.Diff(bpftest.OnlyDrops(after), bpftest.CountedTwice(t, w.Datapath)); d != "" {
				t.Errorf("drops by device and VPC (-all +theirs):\n%s", d)
			}
		})
	}
}

// One is the expectation of a single counter.
func One(name string) map[string]uint64 { return map[string]uint64{name: 1} }
