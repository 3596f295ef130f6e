// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
)

// Counter is the number of packets that met one fate at one hook since the
// maps were made. Of sockets, connects are counted, and no bytes.
type Counter struct {
	Reason    Reason
	Direction Direction
	Packets   uint64
	Bytes     uint64 // of whole frames; a segmentation-offloaded one counts once
}

// Counters reads all counters that are not zero, ordered by reason and
// direction.
func (r *Reader) Counters() ([]Counter, error) {
	m := r.maps["alioth_counters"]
	var counters []Counter
	for index := range m.MaxEntries() {
		var perCPU []aliothCounter
		if err := m.Lookup(index, &perCPU); err != nil {
			return nil, fmt.Errorf("read counter %d: %w", index, err)
		}
		c := Counter{
			Reason:    Reason(index / uint32(aliothDirectionDIRECTION_LEN)),
			Direction: Direction(index % uint32(aliothDirectionDIRECTION_LEN)),
		}
		sum := sumOf(perCPU)
		c.Packets, c.Bytes = sum.Packets, sum.Bytes
		if c.Packets != 0 {
			counters = append(counters, c)
		}
	}
	return counters, nil
}

// DropCounter is the part of a Counter of drops that is of one VPC at one
// device.
type DropCounter struct {
	Counter
	// Ifindex is the device whose program dropped the packets; 0 stands for
	// devices that are gone.
	Ifindex int
	// VNI is the VPC; 0 when there was none to tell, or none that is here.
	VNI uint32
}

// DropCounters reads by device and VPC what was dropped, ordered by device, VPC,
// reason and direction. The table is bounded: what found no room there is in
// Counters alone, and so are drops in VPCs that have left the node.
func (r *Reader) DropCounters() ([]DropCounter, error) {
	rows := map[aliothDropKey][]aliothCounter{}
	if err := readMap(r.maps[dropCountersMap], rows); err != nil {
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

func sumOf(perCPU []aliothCounter) (sum aliothCounter) {
	for _, cpu := range perCPU {
		sum.Packets += cpu.Packets
		sum.Bytes += cpu.Bytes
	}
	return sum
}

// SweepDropCounters makes room in the table of DropCounters: what was counted at
// a device that is no interface any more stays with its VPC, as device 0; that
// of a VPC which has left the node goes. Call it every few seconds.
func (d *Datapath) SweepDropCounters() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows := map[aliothDropKey][]aliothCounter{}
	if err := readMap(d.objects.AliothDropCounters, rows); err != nil {
		return err
	}
	for key := range rows {
		left, err := d.left(key)
		if err != nil {
			return err
		}
		if left == nil {
			continue
		}
		if err := d.fold(key, *left); err != nil {
			return err
		}
	}
	return nil
}

// left returns where a row belongs that can stay no longer as it is: under
// another key, or under the zero key, which means nowhere. nil: it stays.
func (d *Datapath) left(key aliothDropKey) (*aliothDropKey, error) {
	var (
		vpc   aliothVpc
		iface aliothInterface
	)
	if key.Vni != 0 {
		switch err := d.objects.AliothVpcs.Lookup(key.Vni, &vpc); {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return &aliothDropKey{}, nil
		case err != nil:
			return nil, fmt.Errorf("look up VPC %d: %w", key.Vni, err)
		}
	}
	if key.Ifindex == 0 || key.Ifindex == uint32(d.cfg.VXLANIfindex) || key.Ifindex == uint32(d.cfg.uplink()) {
		return nil, nil
	}
	switch err := d.objects.AliothInterfaces.Lookup(key.Ifindex, &iface); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		key.Ifindex = 0
		return &key, nil
	case err != nil:
		return nil, fmt.Errorf("look up interface %d: %w", key.Ifindex, err)
	}
	return nil, nil
}

// fold moves a row. No program writes the new one, because no device has index
// 0. It is taken away before it is added, so that nothing counts twice.
func (d *Datapath) fold(from, to aliothDropKey) error {
	var moved, sum []aliothCounter
	m := d.objects.AliothDropCounters
	if err := m.LookupAndDelete(from, &moved); err != nil {
		return fmt.Errorf("take away drop counter: %w", err)
	}
	if to == (aliothDropKey{}) {
		return nil
	}
	switch err := m.Lookup(to, &sum); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		sum = make([]aliothCounter, len(moved))
	case err != nil:
		return fmt.Errorf("read drop counter: %w", err)
	}
	for cpu, counter := range moved {
		sum[cpu].Packets += counter.Packets
		sum[cpu].Bytes += counter.Bytes
	}
	if err := m.Put(to, sum); err != nil {
		return fmt.Errorf("write drop counter: %w", err)
	}
	return nil
}
