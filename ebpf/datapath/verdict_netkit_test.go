// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// TestWhatIsBeingSentGoesOutOfTheHostEnd is about alioth_from_pod where a netkit
// pair runs it: nothing has received the packet yet. It comes with a mark that
// says nothing.
func TestWhatIsBeingSentGoesOutOfTheHostEnd(t *testing.T) {
	const delivered = uint32(bpf.AliothMarkMARK_DELIVERED)
	w := newWorld(t)
	to := func(src, dst string) []byte {
		return fromA(func(f *frame) { f.Src, f.Dst = Ip(src), Ip(dst) }).bytes()
	}
	for _, c := range []struct {
		name   string
		device int
		in     []byte
		mark   uint32
		reason string
	}{
		{"to another pod", w.podA, to("10.0.1.10", "10.0.1.11"), delivered, "forwarded_local"},
		{"an answer", w.podA, arpFrame(Bcast, MacA, 1, MacA, Ip("10.0.1.10"), state.MAC{}, Ip("10.0.1.11")), delivered, "replied"},
		{"to the node's own interface", w.main, to("10.8.1.10", "10.8.1.2"), 0, "forwarded_local"},
		{"to another node", w.podA, to("10.0.1.10", "10.0.1.20"), 0, "forwarded_remote"},
		{"under a false address", w.podA, to("10.0.1.11", "10.0.1.10"), state.MarkEgress, "spoofed_ip"},
	} {
		t.Run(c.name, func(t *testing.T) {
			enter(t, w.ns)
			before := counts(t, w.opened)
			_, _, end := runContext(t, w.objects.AliothFromPod, c.in, bpf.Context{Ifindex: uint32(c.device), Mark: state.MarkEgress})
			if end.Mark != c.mark {
				t.Errorf("mark is %#x, want %#x", end.Mark, c.mark)
			}
			if d := cmp.Diff(one("from_pod/"+c.reason), added(before, counts(t, w.opened))); d != "" {
				t.Errorf("counters (-want +got):\n%s", d)
			}
		})
	}
}

// TestWhatWasDecidedPassesTheHostEnd shows that alioth_to_pod neither changes
// nor counts it, and what comes otherwise to the pod's own address is refused.
func TestWhatWasDecidedPassesTheHostEnd(t *testing.T) {
	w := newWorld(t)
	in := fromA(func(f *frame) {
		f.EthDst, f.EthSrc, f.Src, f.Dst = MacA, state.VirtualMAC, Ip("10.0.1.11"), Ip("10.0.1.10")
	}).bytes()
	for mark, want := range map[uint32]struct {
		verdict uint32
		counts  map[string]uint64
	}{
		uint32(bpf.AliothMarkMARK_DELIVERED):     {actOK, map[string]uint64{}},
		uint32(bpf.AliothMarkMARK_DELIVERED) | 2: {actShot, one("to_pod/not_shadow")},
		0:                                        {actShot, one("to_pod/not_shadow")},
	} {
		before := counts(t, w.opened)
		verdict, out, after := runMarked(t, w.objects.AliothToPod, w.podA, in, mark)
		if verdict != want.verdict || after != mark || cmp.Diff(in, out) != "" {
			t.Errorf("mark %#x: verdict %d, mark %#x, packet %x", mark, verdict, after, out)
		}
		if d := cmp.Diff(want.counts, added(before, counts(t, w.opened))); d != "" {
			t.Errorf("mark %#x: counters (-want +got):\n%s", mark, d)
		}
	}
}
