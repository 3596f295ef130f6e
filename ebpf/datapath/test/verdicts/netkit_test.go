// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// TestFromPod_OnNetkit_SentByHostEnd is about alioth_from_pod where a netkit pair
// runs it: no device has received the packet yet. Its mark has no meaning.
func TestFromPod_OnNetkit_SentByHostEnd(t *testing.T) {
	const delivered = uint32(bpf.AliothMarkMARK_DELIVERED)
	w := world.New(t)
	to := func(src, dst string) []byte {
		return world.FromA(func(f *wire.Frame) { f.Src, f.Dst = wire.IP(src), wire.IP(dst) }).Bytes()
	}
	for _, c := range []struct {
		name   string
		device int
		in     []byte
		mark   uint32
		reason string
	}{
		{"to another pod", w.PodA, to("10.0.1.10", "10.0.1.11"), delivered, "forwarded_local"},
		{"an answer", w.PodA, wire.ARP(world.Bcast, world.MacA, 1, world.MacA, wire.IP("10.0.1.10"), state.MAC{}, wire.IP("10.0.1.11")), delivered, "replied"},
		{"to the node's own interface", w.Main, to("10.8.1.10", "10.8.1.2"), 0, "forwarded_local"},
		{"to another node", w.PodA, to("10.0.1.10", "10.0.1.20"), 0, "forwarded_remote"},
		{"under a false address", w.PodA, to("10.0.1.11", "10.0.1.10"), state.MarkEgress, "spoofed_ip"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bpftest.Enter(t, w.NS)
			before := bpftest.Counts(t, w.Datapath)
			_, _, end := world.RunContext(t, w.Objects.AliothFromPod, c.in, bpf.Context{Ifindex: uint32(c.device), Mark: state.MarkEgress})
			if end.Mark != c.mark {
				t.Errorf("mark is %#x, want %#x", end.Mark, c.mark)
			}
			if d := cmp.Diff(world.One("from_pod/"+c.reason), bpftest.Added(before, bpftest.Counts(t, w.Datapath))); d != "" {
				t.Errorf("counters (-want +got):\n%s", d)
			}
		})
	}
}

// TestToPod_DecidedPacket_PassesUncounted shows that alioth_to_pod neither changes nor counts a
// decided packet, and that other packets to the pod's own address are refused.
func TestToPod_DecidedPacket_PassesUncounted(t *testing.T) {
	w := world.New(t)
	in := world.FromA(func(f *wire.Frame) {
		f.EthDst, f.EthSrc, f.Src, f.Dst = world.MacA, state.VirtualMAC, wire.IP("10.0.1.11"), wire.IP("10.0.1.10")
	}).Bytes()
	for mark, want := range map[uint32]struct {
		verdict uint32
		counts  map[string]uint64
	}{
		uint32(bpf.AliothMarkMARK_DELIVERED):     {world.ActOK, map[string]uint64{}},
		uint32(bpf.AliothMarkMARK_DELIVERED) | 2: {world.ActShot, world.One("to_pod/not_shadow")},
		0:                                        {world.ActShot, world.One("to_pod/not_shadow")},
	} {
		before := bpftest.Counts(t, w.Datapath)
		verdict, out, after := world.RunMarked(t, w.Objects.AliothToPod, w.PodA, in, mark)
		if verdict != want.verdict || after != mark || cmp.Diff(in, out) != "" {
			t.Errorf("mark %#x: verdict %d, mark %#x, packet %x", mark, verdict, after, out)
		}
		if d := cmp.Diff(want.counts, bpftest.Added(before, bpftest.Counts(t, w.Datapath))); d != "" {
			t.Errorf("mark %#x: counters (-want +got):\n%s", mark, d)
		}
	}
}
