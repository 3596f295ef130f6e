// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/test/needs"
)

// judgedMaps makes the maps of judged flows.
func judgedMaps(t *testing.T) bpf.Maps {
	t.Helper()
	needs.Root(t, "to make BPF maps")
	maps := bpf.Maps{}
	for name, row := range map[string][2]any{
		bpf.JudgedMap:       {bpf.AliothConnKey{}, bpf.AliothJudged{}},
		bpf.JudgedOpenedMap: {uint32(0), uint32(0)},
		bpf.JudgedEndedMap:  {uint32(0), uint32(0)},
	} {
		m, err := ebpf.NewMap(&ebpf.MapSpec{
			Type: ebpf.Hash, KeySize: uint32(binary.Size(row[0])), ValueSize: uint32(binary.Size(row[1])), MaxEntries: 64,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		maps[name] = m
	}
	return maps
}

// judgedCase is a flow of a device, and the time that it may be silent.
type judgedCase struct {
	name              string
	proto             uint8
	podPort, peerPort uint16
	flags             bpf.AliothJudgedFlag
	idle              time.Duration
}

func judgedCases() []judgedCase {
	const (
		fin      = bpf.AliothJudgedFlag(bpf.AliothConnFlagCONN_FIN)
		rst      = bpf.AliothJudgedFlag(bpf.AliothConnFlagCONN_RST)
		seen     = bpf.AliothJudgedFlag(bpf.AliothConnFlagCONN_SEEN)
		answered = seen << answersShift
		in       = bpf.AliothJudgedFlagJUDGED_INGRESS
	)
	return []judgedCase{
		{"TCP that nobody answered", state.ProtoTCP, 1, 443, seen, idleOpening},
		{"TCP to the pod that it did not answer", state.ProtoTCP, 443, 2, in | seen, idleOpening},
		{"TCP", state.ProtoTCP, 3, 443, seen | answered, idleEstablished},
		{"TCP closed by one side", state.ProtoTCP, 4, 443, seen | answered | fin<<answersShift, idleEstablished},
		{"TCP closed by both sides", state.ProtoTCP, 5, 443, seen | answered | fin | fin<<answersShift, idleClosing},
		{"TCP that was reset", state.ProtoTCP, 6, 443, seen | answered | rst<<answersShift, idleClosing},
		{"UDP", state.ProtoUDP, 7, 123, answered, idleDatagram},
		{"DNS of the pod", state.ProtoUDP, 8, portDNS, answered, idleDNS},
		{"DNS to the pod", state.ProtoUDP, portDNS, 9, in | answered, idleDNS},
		{"from the port of DNS", state.ProtoUDP, 10, portDNS, in | answered, idleDatagram},
		{"an echo", 1, 0, 0, answered, idleDatagram},
		{"SCTP", protoSCTP, 11, 443, seen | answered, idleEstablished},
	}
}

func TestJudged_Sweep_SilentFlowsEndAndAreCounted(t *testing.T) {
	const now, device = 10 * time.Hour, uint32(7)
	maps := judgedMaps(t)
	table := NewJudged(maps)
	for _, c := range judgedCases() {
		if err := table.Open(device); err != nil {
			t.Fatal(err)
		}
		key := bpf.AliothConnKey{
			Vni: 5, Proto: c.proto, PodPort: bpf.NetworkOrder(c.podPort), PeerPort: bpf.NetworkOrder(c.peerPort), Inside: 1,
		}
		row := bpf.AliothJudged{Ifindex: device, Flags: c.flags}
		for _, step := range []struct {
			silent  time.Duration
			removed int
		}{{c.idle, 0}, {c.idle + time.Nanosecond, 1}} {
			row.LastSeen = uint64(now - step.silent)
			if err := maps[bpf.JudgedMap].Put(key, row); err != nil {
				t.Fatal(err)
			}
			if err := maps[bpf.JudgedOpenedMap].Put(device, uint32(1)); err != nil {
				t.Fatal(err)
			}
			removed, err := table.Sweep(now)
			if err != nil || removed != step.removed {
				t.Errorf("%s: %d flows ended after %v, %v, want %d", c.name, removed, step.silent, err, step.removed)
			}
			var ended uint32
			if err := maps[bpf.JudgedEndedMap].Lookup(device, &ended); err != nil || int(ended) != step.removed {
				t.Errorf("%s: %d flows count as ended, %v, want %d", c.name, ended, err, step.removed)
			}
		}
		if err := table.End(device); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJudged_InterfaceEnds_OtherFlowsStay(t *testing.T) {
	maps := judgedMaps(t)
	table := NewJudged(maps)
	for device := uint32(7); device < 9; device++ {
		if err := table.Open(device); err != nil {
			t.Fatal(err)
		}
		for port := uint16(0); port < 3; port++ {
			key := bpf.AliothConnKey{Vni: device, PodPort: port, Proto: state.ProtoTCP}
			if err := maps[bpf.JudgedMap].Put(key, bpf.AliothJudged{Ifindex: device}); err != nil {
				t.Fatal(err)
			}
		}
		if err := maps[bpf.JudgedOpenedMap].Put(device, uint32(3)); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.End(7); err != nil {
		t.Fatal(err)
	}
	flows, err := table.read()
	if err != nil || len(flows) != 3 {
		t.Errorf("%d flows are left, %v, want 3", len(flows), err)
	}
	for key, f := range flows {
		if f.ifindex != 8 || key.Vni != 8 {
			t.Errorf("flow %v of device %d is left", key, f.ifindex)
		}
	}
}
