// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cached

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Table is the table of cached rows. No State has them: a restart of the daemon keeps them,
// and ApplyParts leaves them as they are. Its methods may be called concurrently, but a row
// has one writer only.
type Table struct {
	rows *ebpf.Map
}

// New returns the table of a datapath with these maps, which the caller closes.
func New(maps bpf.Maps) *Table { return &Table{maps[bpf.CachedMap]} }

// Rows reads all rows, ordered by VNI and address. Rows that are put or deleted meanwhile
// may be missing.
func (t *Table) Rows() ([]state.Cached, error) {
	rows := map[bpf.AliothAddressKey]bpf.AliothCached{}
	if err := bpf.ReadMap(t.rows, rows); err != nil {
		return nil, err
	}
	list := make([]state.Cached, 0, len(rows))
	for key, row := range rows {
		list = append(list, decode(key, row))
	}
	slices.SortFunc(list, func(a, b state.Cached) int {
		return cmp.Or(cmp.Compare(a.VNI, b.VNI), a.IP.Compare(b.IP))
	})
	return list, nil
}

// Put adds a row, or replaces the row of the key with all of its fields. A mark of the programs
// that is newer than c is lost. The error wraps ErrFull if the table has no room.
func (t *Table) Put(c state.Cached) error {
	key, err := keyOf(c.VNI, c.IP)
	if err != nil {
		return err
	}
	if !c.Node.IsValid() || c.Node.IsUnspecified() {
		return fmt.Errorf("%w: cached row of %s in VNI %d: node %q is no address", state.ErrInvalid, c.IP, c.VNI, c.Node)
	}
	err = t.rows.Put(key, encode(c))
	if errors.Is(err, ErrFull) {
		return fmt.Errorf("put cached row of %s in VNI %d: %w", c.IP, c.VNI, ErrFull)
	}
	if err != nil {
		return fmt.Errorf("put cached row of %s in VNI %d: %w", c.IP, c.VNI, err)
	}
	return nil
}

// Delete deletes a row. A missing row is not an error.
func (t *Table) Delete(vni uint32, ip netip.Addr) error {
	key, err := keyOf(vni, ip)
	if err != nil {
		return err
	}
	if err := t.rows.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete cached row of %s in VNI %d: %w", ip, vni, err)
	}
	return nil
}

func keyOf(vni uint32, ip netip.Addr) (bpf.AliothAddressKey, error) {
	if vni == 0 || !ip.IsValid() || ip.IsUnspecified() || ip.Zone() != "" {
		return bpf.AliothAddressKey{}, fmt.Errorf("%w: %q in VNI %d is no address of a VPC", state.ErrInvalid, ip, vni)
	}
	return bpf.AliothAddressKey{Vni: vni, Ip: bpf.EncodeAddr(ip)}, nil
}

func encode(c state.Cached) bpf.AliothCached {
	row := bpf.AliothCached{
		Node: bpf.EncodeAddr(c.Node), Before: bpf.EncodeAddr(c.Before),
		Used: uint64(c.Used), Until: uint64(c.Until), Mac: c.MAC,
	}
	if c.Gone {
		row.State = bpf.AliothCachedStateCACHED_GONE
	}
	return row
}

func decode(key bpf.AliothAddressKey, row bpf.AliothCached) state.Cached {
	return state.Cached{
		VNI: key.Vni, IP: bpf.DecodeAddr(key.Ip),
		Node: bpf.DecodeAddr(row.Node), Before: bpf.DecodeAddr(row.Before), MAC: row.Mac,
		Used: time.Duration(row.Used), Until: time.Duration(row.Until),
		Gone: row.State == bpf.AliothCachedStateCACHED_GONE,
	}
}
