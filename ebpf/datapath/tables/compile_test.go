// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/state/statetest"
)

// compile turns a whole State into rows.
func compile(s state.State, have *Rows) *Rows {
	p := s.Parts()
	all := p.Everything()
	return Compile(p, all.VNIs, all.Is, have)
}

// TestCompile_PartByPart_EqualsWhole replaces random parts, and
// keeps the rows as applySome does.
func TestCompile_PartByPart_EqualsWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	have, last := &Rows{}, state.State{}.Parts()
	for range 400 {
		now := statetest.Clone(last)
		for range 1 + random.IntN(3) {
			vni := uint32(random.IntN(6))
			if random.IntN(4) == 0 {
				delete(now.VPCs, vni)
				delete(now.Services, vni)
				continue
			}
			if now.VPCs[vni] == nil || random.IntN(3) == 0 {
				now.VPCs[vni] = statetest.RandomPart(random, vni)
			}
			if vni != 0 {
				now.Services[vni] = statetest.RandomServices(random, vni, now.Services[vni])
			}
		}
		fresh := now.Since(last)
		want := Compile(now, fresh.VNIs, fresh.Is, have)
		have.Swap(have.Only(Compile(last, fresh.VNIs, fresh.Was, have), want), want)
		if d := cmp.Diff(now.State(), have.State(), statetest.SameAddr); d != "" {
			t.Fatalf("parts %v (-want +got):\n%s", fresh, d)
		}
		if all := compile(now.State(), have); !maps.Equal(interfaceTable.of(all), interfaceTable.of(have)) ||
			!maps.Equal(serviceTable.of(all), serviceTable.of(have)) || !maps.Equal(maglevTable.of(all), maglevTable.of(have)) {
			t.Fatalf("parts %v: at once come other rows", fresh)
		}
		last = now
	}
}
