// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// hostsOf returns so many backends, as a service's rows are.
func hostsOf(n int) []bpf.AliothBackend {
	list := make([]bpf.AliothBackend, 0, n)
	for host := range n {
		ip := netip.AddrFrom4([4]byte{10, 0, byte(host >> 8), byte(host)})
		list = append(list, bpf.AliothBackend{Ip: bpf.EncodeAddr(ip), Port: bpf.NetworkOrder(uint16(8080))})
	}
	return list
}

func TestLookupTable_Backends_SharedEvenly(t *testing.T) {
	for _, n := range []int{2, 3, 4, 7, 8, 15, 64, 250, 255, state.MaxBackends} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			entries := lookupEntries(n)
			if !big.NewInt(int64(entries)).ProbablyPrime(0) {
				t.Errorf("%d entries are no prime", entries)
			}
			if entries < n*entriesPerBackend {
				t.Errorf("%d entries are few for %d backends", entries, n)
			}
			share := make([]int, n)
			for _, slot := range lookupSlots(hostsOf(n), entries) {
				share[slot]++
			}
			if least, most := slices.Min(share), slices.Max(share); most > least+1 {
				t.Errorf("one backend has %d entries, another %d", least, most)
			}
		})
	}
}

func TestLookupTable_BackendGone_MostSlotsKept(t *testing.T) {
	for _, n := range []int{3, 4, 20, 100, 500, state.MaxBackends} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			hosts, entries := hostsOf(n), lookupEntries(n)
			before := lookupSlots(hosts, entries)
			gone := n / 2
			left := slices.Delete(slices.Clone(hosts), gone, gone+1)
			moved := 0
			for entry, slot := range lookupSlots(left, entries) {
				if was := before[entry]; int(was) != gone && hosts[was] != left[slot] {
					moved++
				}
			}
			// The paper measures about 1 % at 1,000 backends and 65,537 entries.
			if moved > entries/20 {
				t.Errorf("%d of %d entries have moved to another backend that stays", moved, entries)
			}
		})
	}
}

func TestLookupTable_NoChoice_Empty(t *testing.T) {
	for n := range 2 {
		if entries := lookupEntries(n); entries != 0 || len(lookupSlots(hostsOf(n), entries)) != 0 {
			t.Errorf("%d backends have a table of %d entries", n, entries)
		}
	}
}
