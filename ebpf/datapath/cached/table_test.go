// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cached

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/state/statetest"
	"github.com/alioth-net/alioth/test/needs"
)

var ip = netip.MustParseAddr

// newTable makes a table with room for some rows in the kernel.
func newTable(t *testing.T, room uint32) *Table {
	t.Helper()
	needs.Root(t, "to make BPF maps")
	spec, err := bpf.LoadAlioth()
	if err != nil {
		t.Fatal(err)
	}
	ms := spec.Maps[bpf.CachedMap].Copy()
	ms.MaxEntries = room
	m, err := ebpf.NewMap(ms)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return New(bpf.Maps{bpf.CachedMap: m})
}

func row(vni uint32, addr string) state.Cached {
	return state.Cached{VNI: vni, IP: ip(addr), Node: ip("192.0.2.2"), MAC: state.MAC{2, 1}}
}

func TestRows_Put_ReadBackEqual(t *testing.T) {
	table := newTable(t, 16)
	rows := []state.Cached{
		row(5, "10.0.1.2"),
		{VNI: 5, IP: ip("10.0.1.3"), Node: ip("2001:db8::2"), Before: ip("192.0.2.3"), MAC: state.MAC{2, 2}, Used: 1, Until: 1<<63 - 1, Gone: true},
		row(5, "fd10::2"),
		row(6, "10.0.1.2"),
	}
	for _, r := range slices.Backward(rows) {
		if err := table.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, table, rows)
	rows[0].Node, rows[0].Used = ip("192.0.2.9"), 3
	if err := table.Put(rows[0]); err != nil {
		t.Fatal(err)
	}
	expect(t, table, rows)
	for range 2 { // a missing row is not an error
		if err := table.Delete(5, ip("fd10::2")); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, table, slices.Delete(rows, 2, 3))
}

func expect(t *testing.T, table *Table, want []state.Cached) {
	t.Helper()
	got, err := table.Rows()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, statetest.SameAddr); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
}

func TestTable_Full_NoRowEvicted(t *testing.T) {
	table := newTable(t, 2)
	rows := []state.Cached{row(5, "10.0.1.2"), row(5, "10.0.1.3")}
	for _, r := range rows {
		if err := table.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Put(row(5, "10.0.1.4")); !errors.Is(err, ErrFull) {
		t.Errorf("error is %v, want ErrFull", err)
	}
	expect(t, table, rows)
}

func TestPut_InvalidRow_Refused(t *testing.T) {
	table := newTable(t, 2)
	for name, change := range map[string]func(*state.Cached){
		"no VNI":     func(r *state.Cached) { r.VNI = 0 },
		"no address": func(r *state.Cached) { r.IP = netip.Addr{} },
		"any":        func(r *state.Cached) { r.IP = netip.IPv4Unspecified() },
		"a zone":     func(r *state.Cached) { r.IP = ip("fe80::1%eth0") },
		"no node":    func(r *state.Cached) { r.Node = netip.Addr{} },
		"any node":   func(r *state.Cached) { r.Node = netip.IPv6Unspecified() },
	} {
		r := row(5, "10.0.1.2")
		change(&r)
		if err := table.Put(r); !errors.Is(err, state.ErrInvalid) {
			t.Errorf("%s: error is %v, want ErrInvalid", name, err)
		}
	}
	if err := table.Delete(0, ip("10.0.1.2")); !errors.Is(err, state.ErrInvalid) {
		t.Errorf("a deletion without a VNI: %v", err)
	}
	expect(t, table, []state.Cached{})
}

func TestMiss_CutOff_Error(t *testing.T) {
	if miss, err := decodeMiss(make([]byte, 23)); err == nil {
		t.Errorf("23 bytes are %+v", miss)
	}
}

func TestMisses_Closed_ReadEnds(t *testing.T) {
	needs.Root(t, "to make BPF maps")
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	misses, err := ReadMisses(bpf.Maps{bpf.MissesMap: m})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := misses.Read()
		ended <- err
	}()
	if err := misses.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("error is %v, want ErrClosed", err)
	}
}
