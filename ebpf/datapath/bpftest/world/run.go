// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// Return values of programs to the hook.
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
func RunMarked(
	t testing.TB,
	p *ebpf.Program,
	ifindex int,
	in []byte,
	mark uint32,
) (verdict uint32, out []byte, after uint32) {
	t.Helper()
	ctx := bpf.Received(ifindex)
	ctx.Mark = mark
	verdict, out, end := RunContext(t, p, in, ctx)
	return verdict, out, end.Mark
}

// RunContext does the same with a packet that has further context. It returns the packet's
// context after the run.
func RunContext(
	t testing.TB,
	p *ebpf.Program,
	in []byte,
	ctx bpf.Context,
) (verdict uint32, out []byte, end bpf.Context) {
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

// One returns the expectation of a single counter.
func One(name string) map[string]uint64 { return map[string]uint64{name: 1} }
