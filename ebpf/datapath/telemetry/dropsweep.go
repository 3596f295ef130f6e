// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// DropSweeper makes room in the table of drops.
type DropSweeper struct {
	drops, vpcs, interfaces *ebpf.Map
	// nodes are the devices of the node that are not interfaces.
	nodes []uint32
}

// NewDropSweeper returns a DropSweeper for these maps; nodes are the indexes of the devices of
// the node whose programs drop packets.
func NewDropSweeper(in bpf.Maps, nodes ...int) *DropSweeper {
	s := &DropSweeper{drops: in[bpf.DropCountersMap], vpcs: in[bpf.VpcsMap], interfaces: in[bpf.InterfacesMap]}
	for _, ifindex := range nodes {
		s.nodes = append(s.nodes, uint32(ifindex))
	}
	return s
}

// Sweep goes through the table once. It moves drops at a device that no longer is an interface to
// device 0 of their VPC. It deletes the drops of a VPC that has left the node.
func (s *DropSweeper) Sweep() error {
	rows := map[bpf.AliothDropKey][]bpf.AliothCounter{}
	if err := bpf.ReadMap(s.drops, rows); err != nil {
		return err
	}
	for key := range rows {
		left, err := s.left(key)
		if err != nil {
			return err
		}
		if left == nil {
			continue
		}
		if err := s.fold(key, *left); err != nil {
			return err
		}
	}
	return nil
}

// left returns the new key of a row that can't keep its own; the zero key stands for
// deletion. nil: the row stays.
func (s *DropSweeper) left(key bpf.AliothDropKey) (*bpf.AliothDropKey, error) {
	var (
		vpc   bpf.AliothVpc
		iface bpf.AliothInterface
	)
	if key.Vni != 0 {
		switch err := s.vpcs.Lookup(key.Vni, &vpc); {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return &bpf.AliothDropKey{}, nil
		case err != nil:
			return nil, fmt.Errorf("look up VPC %d: %w", key.Vni, err)
		}
	}
	if key.Ifindex == 0 || slices.Contains(s.nodes, key.Ifindex) {
		return nil, nil
	}
	switch err := s.interfaces.Lookup(key.Ifindex, &iface); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		key.Ifindex = 0
		return &key, nil
	case err != nil:
		return nil, fmt.Errorf("look up interface %d: %w", key.Ifindex, err)
	}
	return nil, nil
}

// fold moves a row. No program writes the new one, because no device has index 0. The
// row is deleted before it is added, so that no packet counts twice.
func (s *DropSweeper) fold(from, to bpf.AliothDropKey) error {
	var moved, sum []bpf.AliothCounter
	if err := s.drops.LookupAndDelete(from, &moved); err != nil {
		return fmt.Errorf("take away drop counter: %w", err)
	}
	if to == (bpf.AliothDropKey{}) {
		return nil
	}
	switch err := s.drops.Lookup(to, &sum); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		sum = make([]bpf.AliothCounter, len(moved))
	case err != nil:
		return fmt.Errorf("read drop counter: %w", err)
	}
	for cpu, counter := range moved {
		sum[cpu].Packets += counter.Packets
		sum[cpu].Bytes += counter.Bytes
	}
	if err := s.drops.Put(to, sum); err != nil {
		return fmt.Errorf("write drop counter: %w", err)
	}
	return nil
}
