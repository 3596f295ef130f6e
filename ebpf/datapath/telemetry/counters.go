// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// Counter is the number of packets with one result at one hook since the maps were
// made. For sockets, connects are counted, and no bytes.
type Counter struct {
	Reason    Reason
	Direction Direction
	Packets   uint64
	Bytes     uint64 // of whole frames; a segmentation-offloaded one counts once
}

// ReadCounters reads all counters that are not zero, ordered by reason and
// direction.
func ReadCounters(in bpf.Maps) ([]Counter, error) {
	m := in[bpf.CountersMap]
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	var cursor ebpf.MapBatchCursor
	indices := make([]uint32, m.MaxEntries())
	perCPU := make([]bpf.AliothCounter, len(indices)*cpus)
	// There is an error at the end of the map, which is reached.
	n, err := m.BatchLookup(&cursor, indices, perCPU, nil)
	if n != len(indices) {
		return nil, fmt.Errorf("read counters: %d of %d: %w", n, len(indices), err)
	}
	var counters []Counter
	for i, index := range indices {
		sum := sumOf(perCPU[i*cpus : (i+1)*cpus])
		if sum.Packets == 0 {
			continue
		}
		counters = append(counters, Counter{
			Reason:    Reason(index / uint32(bpf.AliothDirectionDIRECTION_LEN)),
			Direction: Direction(index % uint32(bpf.AliothDirectionDIRECTION_LEN)),
			Packets:   sum.Packets, Bytes: sum.Bytes,
		})
	}
	return counters, nil
}

// DropCounter is the part of a Counter of drops for one VPC at one device.
type DropCounter struct {
	Counter
	// Ifindex is the device whose program dropped the packets; 0 stands for
	// devices that are gone.
	Ifindex int
	// VNI is the VPC; 0 without a VPC, or if the VPC is not on this node.
	VNI uint32
}

// ReadDropCounters reads the drops by device and VPC, ordered by device, VPC, reason
// and direction. The table is bounded: drops without room there are in Counters alone,
// and so are drops in VPCs that have left the node.
func ReadDropCounters(in bpf.Maps) ([]DropCounter, error) {
	rows := map[bpf.AliothDropKey][]bpf.AliothCounter{}
	if err := bpf.ReadMap(in[bpf.DropCountersMap], rows); err != nil {
		return nil, err
	}
	var counters []DropCounter
	for key, perCPU := range rows {
		sum := sumOf(perCPU)
		counters = append(counters, DropCounter{
			Counter: Counter{
				Reason: Reason(key.Reason), Direction: Direction(key.Direction), Packets: sum.Packets, Bytes: sum.Bytes,
			},
			Ifindex: int(key.Ifindex), VNI: key.Vni,
		})
	}
	slices.SortFunc(counters, func(a, b DropCounter) int {
		return cmp.Or(cmp.Compare(a.Ifindex, b.Ifindex), cmp.Compare(a.VNI, b.VNI),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Direction, b.Direction))
	})
	return counters, nil
}

func sumOf(perCPU []bpf.AliothCounter) (sum bpf.AliothCounter) {
	for _, cpu := range perCPU {
		sum.Packets += cpu.Packets
		sum.Bytes += cpu.Bytes
	}
	return sum
}
