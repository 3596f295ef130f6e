// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/cnid/forward/lookup/cache"
	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/cached"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/test/needs"
)

// newKernelTable makes the table in the kernel as the programs have it.
func newKernelTable(t *testing.T) *cached.Table {
	t.Helper()
	spec, err := bpf.LoadAlioth()
	if err != nil {
		t.Fatal(err)
	}
	definition := spec.Maps[bpf.CachedMap].Copy()
	definition.Pinning = ebpf.PinNone
	if definition.MaxEntries != cache.RowsAtMost {
		t.Errorf("the table of the programs has room for %d rows, and the cache goes by %d", definition.MaxEntries, cache.RowsAtMost)
	}
	table, err := ebpf.NewMap(definition)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return cached.New(bpf.Maps{bpf.CachedMap: table})
}

// inKernel returns the row of an address in the kernel, and whether packets use it.
func inKernel(t *testing.T, table Table, key cache.Key) (row state.Cached, ok bool) {
	t.Helper()
	rows, err := table.Rows()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.VNI == key.VNI && row.IP == key.IP {
			return row, !row.Gone
		}
	}
	return state.Cached{}, false
}

// TestKernelRow_DaemonRestart_KeptUntilNodeEnds uses the table of the programs.
func TestKernelRow_DaemonRestart_KeptUntilNodeEnds(t *testing.T) {
	needs.Root(t, "to make BPF maps")
	table := newKernelTable(t)
	const there4, there6 = "10.0.7.1", "fd00::7:1"
	for _, addr := range []string{there4, there6} {
		address(t, ip(addr))
	}
	begin := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, NewAPI(asUser(t, "", nil)), func() time.Duration { return monotonic(t) })
		w.vpc(t, "blue", "blue-1", 7)
		w.host("blue", true)
		w.sync()
		w.opened <- Datapath{Table: table, Misses: w.reports}
		return w
	}
	leads := func(t *testing.T, addr string) bool {
		t.Helper()
		row, ok := inKernel(t, table, cache.Key{VNI: 7, IP: ip(addr)})
		return ok && row.Node == ip("192.0.2.2") && row.MAC == state.MAC{2, 0, 0, 0, 0, 1}
	}
	t.Run("first daemon", func(t *testing.T) {
		w := begin(t)
		for _, addr := range []string{there4, there6} {
			w.until(t, "the Address has a row in the kernel", ip(addr), func() bool { return leads(t, addr) })
		}
	})
	t.Run("second daemon", func(t *testing.T) {
		w := begin(t)
		if adopted, changed := w.Adopted(); !adopted {
			<-changed
		}
		for _, addr := range []string{there4, there6} {
			if !leads(t, addr) {
				t.Errorf("the second daemon has no row for %s", addr)
			}
		}
		if got := fmt.Sprint(w.VNIs(func() []uint32 { return nil })); got != "[7]" {
			t.Errorf("VNIs of cached rows are %s", got)
		}
		w.node(t, other, 2, false)
		for _, addr := range []string{there4, there6} {
			w.until(t, "the row ends with its node", ip(addr), func() bool { return !leads(t, addr) })
		}
		w.until(t, "the rows are deleted", ip(there4), func() bool {
			rows, err := table.Rows()
			return err == nil && len(rows) == 0
		})
	})
}
