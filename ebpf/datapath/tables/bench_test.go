// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/state/statetest"
)

// fullNode has a VPC with 5,000 services of three backends each.
func fullNode() state.Parts {
	s := state.State{VPCs: []state.VPC{{VNI: 5, Prefixes: []netip.Prefix{px("10.0.0.0/16")}}}}
	for n := range 5000 {
		service := state.Service{VNI: 5, VIP: netip.AddrFrom4([4]byte{10, 96, byte(n >> 8), byte(n)}), Port: 80, Proto: state.ProtoTCP}
		for b := range 3 {
			service.Backends = append(service.Backends, state.Backend{IP: netip.AddrFrom4([4]byte{10, 0, byte(n), byte(b + 1)}), Port: 8080})
		}
		s.Services = append(s.Services, service)
	}
	for n := range 5000 {
		s.Addresses = append(s.Addresses, statetest.Remote(5, netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}).String(), "192.0.2.2"))
	}
	return s.Parts()
}

func BenchmarkFirstPass(b *testing.B) {
	p := fullNode()
	all := p.Everything()
	for b.Loop() {
		have := &Rows{}
		if plan := Plan(have, Compile(p, all.VNIs, all.Is, have)); len(plan) == 0 {
			b.Fatal("there is nothing to do")
		}
	}
}

func BenchmarkOneChange(b *testing.B) {
	last := fullNode()
	halfway := slices.Collect(last.Services[5].All())[2500].IP
	all := last.Everything()
	have := Compile(last, all.VNIs, all.Is, &Rows{})
	for port := uint16(1); b.Loop(); port++ {
		was := last.Services[5].Get(halfway)
		changed := was.Services[0]
		changed.Backends = slices.Clone(changed.Backends)
		changed.Backends[0].Port = port
		is := &state.VirtualAddress{VNI: 5, IP: was.IP, Services: []state.Service{changed}}
		now := state.Parts{VPCs: last.VPCs, Services: maps.Clone(last.Services)}
		now.Services[5] = last.Services[5].With(state.VirtualChange{IP: is.IP, Now: is})
		n := now.Since(last)
		want := Compile(now, n.VNIs, n.Is, have)
		old := have.Only(Compile(last, n.VNIs, n.Was, have), want)
		if plan := Plan(old, want); len(plan) == 0 {
			b.Fatal("there is nothing to do")
		}
		have.Swap(old, want)
		last = now
	}
}
