// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/cached"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/tables"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// Reader reads a datapath without changing it.
type Reader struct {
	maps bpf.Maps
}

// OpenReader opens the maps that a datapath has pinned, for reading. The error wraps
// os.ErrNotExist if pinDir has no such maps.
func OpenReader(pinDir string) (*Reader, error) {
	maps, err := bpf.OpenPinned(pinDir)
	if err != nil {
		return nil, err
	}
	return &Reader{maps}, nil
}

// Close releases the maps.
func (r *Reader) Close() error { return r.maps.Close() }

// Snapshot reads the state back from the maps, in canonical order: addresses
// unmapped, prefixes masked, every list sorted by its keys.
func (r *Reader) Snapshot() (state.State, error) {
	rows, err := (&tables.Kernel{Maps: r.maps}).Read()
	if err != nil {
		return state.State{}, err
	}
	return rows.State(), nil
}

// Cached returns the table of the rows that the node has looked up, for reading.
func (r *Reader) Cached() *cached.Table { return cached.New(r.maps) }

// HasAddress reports whether an address of a VPC is in the maps.
func (r *Reader) HasAddress(vni uint32, ip netip.Addr) (bool, error) {
	return tables.HasAddress(r.maps, vni, ip)
}

// Backends returns the backends of a port of a virtual address, in the order of their slots. The
// list is empty for a missing port, and may be incomplete during a change.
func (r *Reader) Backends(vni uint32, vip netip.Addr, port uint16, proto uint8) ([]state.Backend, error) {
	return tables.Backends(r.maps, state.Service{VNI: vni, VIP: vip, Port: port, Proto: proto})
}

// ServiceMemory returns the kernel memory of the maps of services in bytes, and false
// if the kernel does not report it.
func (r *Reader) ServiceMemory() (bytes uint64, known bool, err error) {
	return tables.ServiceMemory(r.maps)
}

// Counters reads all counters that are not zero, ordered by reason and direction.
func (r *Reader) Counters() ([]telemetry.Counter, error) { return telemetry.ReadCounters(r.maps) }

// DropCounters reads the drops by device and VPC, ordered by device, VPC, reason and
// direction. The table is bounded: drops without room there are in Counters alone, and
// so are drops in VPCs that have left the node.
func (r *Reader) DropCounters() ([]telemetry.DropCounter, error) {
	return telemetry.ReadDropCounters(r.maps)
}

// Connections reads the table of flows to shared services, ordered by VPC, pod
// and service. Halves of flows are left out.
func (r *Reader) Connections() ([]connections.Connection, error) { return connections.List(r.maps) }
