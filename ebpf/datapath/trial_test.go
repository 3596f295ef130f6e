// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// traces is what the maps hold, row by row, of every map that a packet may leave
// something in.
type traces struct {
	Counters, Drops map[string]uint64
	Rows            map[string]map[string]string
}

func (w *world) traces(t *testing.T) traces {
	t.Helper()
	left := traces{Counters: counts(t, w.opened), Drops: whose(t, w.opened), Rows: map[string]map[string]string{}}
	for name, m := range bpf.Pinnable(w.objects) {
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

// trial makes one, which takes long, to be asked by all of the test.
func (w *world) trial(t *testing.T) *trial.Trial {
	t.Helper()
	if w.asked != nil {
		return w.asked
	}
	spec, err := programs.Specify(w.cfg)
	Must(t, err)
	trial, err := trial.New(spec, bpf.Pinnable(w.objects), w.cfg.VXLANIfindex)
	Must(t, err)
	t.Cleanup(trial.Close)
	w.asked = trial
	return trial
}

// checkTrial compares a trial of a packet from a pod with what the table says
// of the real program, and makes sure that it leaves no trace. What depends on
// a flow that is there, a trial can't know.
func (w *world) checkTrial(t *testing.T, trial *trial.Trial, c verdictCase) {
	t.Helper()
	before := w.traces(t)
	outcome, err := trial.FromPod(c.device, c.in)
	if err != nil {
		t.Fatalf("trial: %v", err)
	}
	if d := cmp.Diff(before, w.traces(t)); d != "" {
		t.Errorf("a trial leaves traces (-before +after):\n%s", d)
	}
	if len(before.Rows[bpf.ConnectionsMap])+len(before.Rows[bpf.FragmentsMap]) > 0 {
		return // of which a trial does not know
	}
	if d := cmp.Diff(c.counts, one("from_pod/"+outcome.Reason.String())); d != "" {
		t.Errorf("trial (-table +trial):\n%s", d)
	}
	if outcome.Mark != c.mark {
		t.Errorf("trial: mark is %#x, want %#x", outcome.Mark, c.mark)
	}
	want := c.out
	if want == nil {
		want = c.in
	}
	if !bytes.Equal(outcome.Frame, want) {
		t.Errorf("trial: packet out is\n%x, want\n%x", outcome.Frame, want)
	}
}

func TestAQuestionKnowsNothingOfTheOneBefore(t *testing.T) {
	w := newWorld(t)
	opening := ask(tcp{Sport: 1000, Dport: 53, Flags: flagSYN}).bytes()
	data := ask(tcp{Sport: 1000, Dport: 53, Flags: flagACK}).bytes()
	first, later := datagramIn(fromA(func(f *frame) { f.Dst = Ip(outside) }), udp{Sport: 1000, Dport: 2000}, 1)
	for range 4 { // which is more than the interface's share of flows
		for _, c := range []struct {
			device int
			in     []byte
			want   string
		}{
			{w.podA, opening, "to_stack"},
			{w.podA, data, "no_connection"},
			{w.open, first.bytes(), "to_stack"},
			{w.open, later.bytes(), "egress_fragment"},
		} {
			outcome, err := w.TryFromPod(c.device, c.in)
			if err != nil || outcome.Reason.String() != c.want {
				t.Errorf("%x: %s, %v, want %s", c.in, outcome.Reason, err, c.want)
			}
		}
	}
}

func TestATrialOfATunnelPacketSaysWhatTheProgramDoes(t *testing.T) {
	w := newWorld(t)
	trial := w.trial(t)
	inner := func(mutate func(*frame)) []byte {
		f := frame{
			EthDst: MacA, EthSrc: macR, Src: Ip("10.0.1.20"), Dst: Ip("10.0.1.10"), L4: tcp{Sport: 1000, Dport: 80, Flags: flagSYN},
		}
		mutate(&f)
		return f.bytes()
	}
	for name, c := range map[string]struct {
		vni  uint32
		node netip.Addr
		in   []byte
		want string
	}{
		"to a pod":                  {vniRed, Ip("192.0.2.2"), inner(unchanged), "forwarded_local"},
		"over IPv6":                 {vniRed, Ip("2001:db8::2"), inner(unchanged), "forwarded_local"},
		"from no node":              {vniRed, Ip("192.0.2.66"), inner(unchanged), "unknown_node"},
		"of no VPC":                 {999, Ip("192.0.2.2"), inner(unchanged), "unknown_vni"},
		"to nobody":                 {vniRed, Ip("192.0.2.2"), inner(func(f *frame) { f.Dst = Ip("10.0.1.99") }), "no_endpoint"},
		"under a local pod's":       {vniRed, Ip("192.0.2.2"), inner(func(f *frame) { f.Src = Ip("10.0.1.11") }), "spoofed_local"},
		"to a pod that has moved":   {vniRed, Ip("192.0.2.2"), inner(func(f *frame) { f.Dst = Ip("10.0.1.20") }), "wrong_node"},
		"to a group":                {vniRed, Ip("192.0.2.2"), inner(func(f *frame) { f.Dst = Ip("224.0.0.1") }), "tunnel_flood"},
		"to a pod of the other VPC": {vniBlue, Ip("192.0.2.2"), inner(func(f *frame) { f.Dst = Ip("10.0.1.11") }), "no_subnet"},
	} {
		t.Run(name, func(t *testing.T) {
			enter(t, w.ns)
			before := w.traces(t)
			outcome, err := trial.FromTunnel(c.vni, c.node, c.in)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(before, w.traces(t)); d != "" {
				t.Errorf("a trial leaves traces (-before +after):\n%s", d)
			}
			real := counts(t, w.opened)
			run(t, tunnelled(t, w, c.vni, c.node), w.podA, c.in)
			if d := cmp.Diff(one("from_tunnel/"+c.want), added(real, counts(t, w.opened))); d != "" {
				t.Errorf("program (-want +got):\n%s", d)
			}
			if outcome.Reason.String() != c.want {
				t.Errorf("trial: %s, want %s", outcome.Reason, c.want)
			}
		})
	}
}

func TestATrialIsThereForOnePacket(t *testing.T) {
	w := newWorld(t)
	outcome, err := w.TryFromPod(w.podA, fromA(unchanged).bytes())
	if err != nil || outcome.Reason.String() != "forwarded_local" {
		t.Errorf("from a pod: %v, %v", outcome.Reason, err)
	}
	arrives := frame{EthDst: MacA, EthSrc: macR, Src: Ip("10.0.1.20"), Dst: Ip("10.0.1.10"), L4: udp{Sport: 1, Dport: 2}}
	outcome, err = w.TryFromTunnel(vniRed, Ip("192.0.2.2"), arrives.bytes())
	if err != nil || outcome.Reason.String() != "forwarded_local" {
		t.Errorf("from another node: %v, %v", outcome.Reason, err)
	}
}

func TestATrialOfAFlowIsAboutANewOne(t *testing.T) {
	w := newWorld(t) // with a share of 2
	trial := w.trial(t)
	query := func(port uint16) []byte { return ask(udp{Sport: port, Dport: 53}).bytes() }
	try := func(in []byte) string {
		t.Helper()
		outcome, err := trial.FromPod(w.podA, in)
		if err != nil {
			t.Fatal(err)
		}
		return outcome.Reason.String()
	}
	for _, port := range []uint16{1001, 1002} {
		if got := try(query(2000)); got != "to_stack" {
			t.Errorf("with room for a flow: %s", got)
		}
		run(t, w.objects.AliothFromPod, w.podA, query(port))
	}
	if got := try(query(2001)); got != "conn_limit" {
		t.Errorf("when the share is used up: %s, want conn_limit", got)
	}
	drops := w.readDrops(t)
	if n := drops.ring.AvailableBytes(); n != 0 {
		t.Errorf("trials have reported %d bytes of drops", n)
	}
}
