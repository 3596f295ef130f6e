// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// compile turns a whole State into rows.
func compile(s state.State, have *tables) *tables {
	p := s.Parts()
	all := p.Everything()
	return compileParts(p, all.VNIs, all.Is, have)
}

// clone returns Parts that can be changed, part by part.
func clone(p state.Parts) state.Parts {
	return state.Parts{VPCs: maps.Clone(p.VPCs), Services: maps.Clone(p.Services)}
}

func remote(vni uint32, addr, node string) state.Address {
	return state.Address{VNI: vni, IP: ip(addr), Kind: state.Remote, Node: ip(node), MAC: macR}
}

func TestAStateIsTheSumOfItsParts(t *testing.T) {
	s := smallState()
	s.VPCs = append(s.VPCs, state.VPC{VNI: 6, Prefixes: []netip.Prefix{px("10.0.0.0/16")}})
	s.Addresses = append(s.Addresses, remote(6, "10.0.1.10", "192.0.2.2"))
	for _, vip := range []string{"fd00:96::1", "10.96.0.9", "10.96.0.2"} {
		for _, port := range []uint16{80, 443} {
			s.Services = append(s.Services, state.Service{VNI: 6, VIP: ip(vip), Port: port, Proto: state.ProtoTCP})
		}
	}
	s.Sort()
	p := s.Parts()
	var addresses []string
	for _, a := range p.Everything().Is {
		addresses = append(addresses, fmt.Sprint(a.VNI, a.IP, len(a.Services)))
	}
	if d := cmp.Diff([]string{"6 10.96.0.2 2", "6 10.96.0.9 2", "6 fd00:96::1 2"}, addresses); d != "" {
		t.Errorf("virtual addresses (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]uint32{0, 5, 6}, p.Everything().VNIs); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
	if d := cmp.Diff(s, p.State(), sameAddr); d != "" {
		t.Errorf("together (-want +got):\n%s", d)
	}
}

// virtual are addresses of a VPC with a service each.
func virtual(vni uint32, addrs ...string) []*state.VirtualAddress {
	var list []*state.VirtualAddress
	for _, addr := range addrs {
		list = append(list, &state.VirtualAddress{VNI: vni, IP: ip(addr), Services: []state.Service{{VNI: vni, VIP: ip(addr), Port: 80, Proto: state.ProtoTCP}}})
	}
	return list
}

func TestPartsThatContradictEachOtherAreRefused(t *testing.T) {
	other := func() *state.State {
		return &state.State{VPCs: []state.VPC{{VNI: 6}}, Interfaces: []state.Interface{{
			Ifindex: 8, VNI: 6, MAC: macB, Addrs: []netip.Addr{ip("10.0.1.10")}, Shadow4: ip("169.254.64.11"),
		}}}
	}
	for name, c := range map[string]struct {
		change func(state.Parts)
		sound  bool
	}{
		"sound":                    {func(state.Parts) {}, true},
		"a device of two VPCs":     {func(p state.Parts) { p.VPCs[6].Interfaces[0].Ifindex = 7 }, false},
		"a shadow of two VPCs":     {func(p state.Parts) { p.VPCs[6].Interfaces[0].Shadow4 = ip("169.254.64.10") }, false},
		"a namespace without VPC":  {func(p state.Parts) { delete(p.VPCs, 5) }, false},
		"rows in another's part":   {func(p state.Parts) { p.VPCs[6].Subnets = []state.Subnet{{VNI: 5, Prefix: px("10.0.1.0/24")}} }, false},
		"a VPC in the part of all": {func(p state.Parts) { p.VPCs[0].VPCs = []state.VPC{{VNI: 7}} }, false},
		"services of no VPC":       {func(p state.Parts) { p.Services[7] = virtual(7, "10.96.0.1") }, false},
		"services of a VPC":        {func(p state.Parts) { p.Services[6] = virtual(6, "10.96.0.1", "10.96.0.2") }, true},
		"its own VPC goes":         {func(p state.Parts) { p.Services[5] = virtual(5, "10.96.0.1"); p.VPCs[5] = &state.State{} }, false},
		"another's services":       {func(p state.Parts) { p.Services[6] = virtual(5, "10.96.0.1") }, false},
		"services without order":   {func(p state.Parts) { p.Services[6] = virtual(6, "10.96.0.2", "10.96.0.1") }, false},
		"an address twice":         {func(p state.Parts) { p.Services[6] = virtual(6, "10.96.0.1", "10.96.0.1") }, false},
		"a mapped address":         {func(p state.Parts) { p.Services[6] = virtual(6, "::ffff:10.96.0.1") }, false},
		"another address's":        {func(p state.Parts) { p.Services[6] = virtual(6, "10.96.0.1"); p.Services[6][0].IP = ip("10.96.0.2") }, false},
		"an address without ports": {func(p state.Parts) { p.Services[6] = []*state.VirtualAddress{{VNI: 6, IP: ip("10.96.0.1")}} }, false},
		"a port twice": {func(p state.Parts) {
			p.Services[6] = virtual(6, "10.96.0.1")
			p.Services[6][0].Services = slices.Repeat(p.Services[6][0].Services, 2)
		}, false},
		"services in a VPC's part": {func(p state.Parts) { p.VPCs[6].Services = virtual(6, "10.96.0.1")[0].Services }, false},
		"nodes in a VPC's part":    {func(p state.Parts) { p.VPCs[6].Nodes = []netip.Addr{ip("192.0.2.9")} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			last := smallState().Parts()
			last.VPCs[6] = other()
			now := clone(last)
			now.VPCs[0], now.VPCs[6] = &state.State{}, other()
			*now.VPCs[0] = *last.VPCs[0]
			c.change(now)
			err := now.Validate(now.Since(last), last)
			if c.sound != (err == nil) || !c.sound && !errors.Is(err, state.ErrInvalid) {
				t.Errorf("error is %v, want none: %v", err, c.sound)
			}
		})
	}
}

// TestWhatIsCompiledPartByPartIsWhatIsCompiledAtOnce replaces random parts, and
// keeps the rows as applySome does.
func TestWhatIsCompiledPartByPartIsWhatIsCompiledAtOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	have, last := newTables(), state.State{}.Parts()
	for range 400 {
		now := clone(last)
		for range 1 + random.IntN(3) {
			vni := uint32(random.IntN(6))
			if random.IntN(4) == 0 {
				delete(now.VPCs, vni)
				delete(now.Services, vni)
				continue
			}
			if now.VPCs[vni] == nil || random.IntN(3) == 0 {
				now.VPCs[vni] = randomPart(random, vni)
			}
			if vni != 0 {
				now.Services[vni] = randomServices(random, vni, now.Services[vni])
			}
		}
		fresh := now.Since(last)
		want := compileParts(now, fresh.VNIs, fresh.Is, have)
		have.swap(have.only(compileParts(last, fresh.VNIs, fresh.Was, have), want), want)
		if d := cmp.Diff(now.State(), have.state(), sameAddr); d != "" {
			t.Fatalf("parts %v (-want +got):\n%s", fresh, d)
		}
		if all := compile(now.State(), have); !maps.Equal(interfaceTable.of(all), interfaceTable.of(have)) ||
			!maps.Equal(serviceTable.of(all), serviceTable.of(have)) || !maps.Equal(maglevTable.of(all), maglevTable.of(have)) {
			t.Fatalf("parts %v: at once come other rows", fresh)
		}
		last = now
	}
}

// randomPart makes a part that contradicts no other one.
func randomPart(random *rand.Rand, vni uint32) *state.State {
	var s state.State
	some := func(add func(i int)) {
		for i := range 4 {
			if random.IntN(2) == 0 {
				add(i)
			}
		}
	}
	if vni == 0 {
		some(func(i int) { s.Nodes = append(s.Nodes, ip(fmt.Sprintf("192.0.2.%d", i+1))) })
		some(func(i int) {
			backends := []state.Backend{{IP: ip("192.0.2.9"), Port: uint16(1 + random.IntN(3))}}
			s.Services = append(s.Services, state.Service{VIP: ip(fmt.Sprintf("10.96.0.%d", 1+i)), Port: 53, Proto: state.ProtoUDP, Backends: backends})
		})
		some(func(i int) {
			s.Probes = append(s.Probes, state.ProbeTarget{IP: ip(fmt.Sprintf("10.0.2.%d", i)), Shadow: ip(shadowA)})
		})
		s.Sort()
		return &s
	}
	s.VPCs = []state.VPC{{VNI: vni, EgressMasquerade: random.IntN(2) == 0}}
	some(func(i int) { s.VPCs[0].Prefixes = append(s.VPCs[0].Prefixes, px(fmt.Sprintf("10.%d.0.0/16", i))) })
	some(func(i int) {
		s.Addresses = append(s.Addresses, remote(vni, fmt.Sprintf("10.0.1.%d", i), fmt.Sprintf("192.0.2.%d", 1+random.IntN(2))))
	})
	some(func(i int) {
		s.Subnets = append(s.Subnets, state.Subnet{VNI: vni, Prefix: px(fmt.Sprintf("10.0.%d.0/24", i))})
	})
	some(func(i int) {
		s.Interfaces = append(s.Interfaces, state.Interface{Ifindex: int(10*vni) + i, VNI: vni, MAC: macA, Addrs: []netip.Addr{ip(fmt.Sprintf("10.0.3.%d", i))}})
	})
	s.Sort()
	return &s
}

// randomServices changes some of the virtual addresses of a VPC.
func randomServices(random *rand.Rand, vni uint32, last []*state.VirtualAddress) []*state.VirtualAddress {
	list := slices.Clone(last)
	for n := range 4 {
		addr := ip(fmt.Sprintf("10.96.0.%d", n+1))
		list = slices.DeleteFunc(list, func(a *state.VirtualAddress) bool { return a.IP == addr && random.IntN(2) == 0 })
		at, found := slices.BinarySearchFunc(list, addr, (*state.VirtualAddress).Compare)
		if found || random.IntN(2) == 0 {
			continue
		}
		a := &state.VirtualAddress{VNI: vni, IP: addr}
		for port := range 1 + random.IntN(2) {
			s := state.Service{VNI: vni, VIP: addr, Port: uint16(80 + port), Proto: state.ProtoTCP}
			for b := range random.IntN(5) {
				s.Backends = append(s.Backends, state.Backend{IP: ip(fmt.Sprintf("10.0.3.%d", b+1)), Port: uint16(80 + random.IntN(2)), Outside: random.IntN(3) == 0})
			}
			a.Services = append(a.Services, s)
		}
		list = slices.Insert(list, at, a)
	}
	return list
}

// others are remote addresses that come and go in a world's VPC.
func others(random *rand.Rand, vni uint32) []state.Address {
	var list []state.Address
	for n := range 20 {
		if random.IntN(2) == 0 {
			list = append(list, remote(vni, fmt.Sprintf("10.0.200.%d", n+1), fmt.Sprintf("192.0.2.%d", 2+random.IntN(2))))
		}
	}
	return list
}

// TestPartsThatComeChangeAndGoAreWhatTheMapsHold checks after each change what the
// maps hold, and at the end that a thorough look finds nothing to repair.
func TestPartsThatComeChangeAndGoAreWhatTheMapsHold(t *testing.T) {
	w := newWorld(t)
	base := w.state().Parts()
	random := rand.New(rand.NewPCG(3, 4))
	now := base
	for range 100 {
		now = clone(now)
		vni := []uint32{vniRed, vniBlue, vniOpen}[random.IntN(3)]
		switch random.IntN(5) {
		case 0: // the VPC leaves, and with it the namespaces that are in it
			delete(now.VPCs, vni)
			delete(now.Services, vni)
			node := *base.VPCs[0]
			node.Namespaces = slices.DeleteFunc(slices.Clone(node.Namespaces), func(n state.Namespace) bool {
				return slices.ContainsFunc(n.Memberships, func(m state.Membership) bool { return now.VPCs[m.VNI] == nil })
			})
			now.VPCs[0] = &node
		case 1: // all is again as it was
			now = clone(base)
		case 2:
			if now.VPCs[vni] != nil {
				now.Services[vni] = randomServices(random, vni, now.Services[vni])
			}
		default:
			part := *base.VPCs[vni]
			part.Addresses = append(slices.Clone(part.Addresses), others(random, vni)...)
			now.VPCs[vni] = &part
		}
		must(t, w.ApplyParts(now))
		wantState(t, w.Datapath, now.State())
	}
	w.Recheck()
	must(t, w.ApplyParts(now))
	if repaired := w.Repaired(); len(repaired) > 0 {
		t.Errorf("the maps were not what was noted: %v", repaired)
	}
}

// TestAPartThatIsTheSameIsNotLookedAt deletes a row by hand, which only a
// thorough look repairs while the row's part stays.
func TestAPartThatIsTheSameIsNotLookedAt(t *testing.T) {
	w := newWorld(t)
	p := w.state().Parts()
	must(t, w.ApplyParts(p))
	address := p.VPCs[vniRed].Addresses[0]
	key := addressKey(address)
	must(t, w.objects.AliothAddresses.Delete(key))
	has := func() bool {
		found, err := w.reader.HasAddress(address.VNI, address.IP)
		must(t, err)
		return found
	}
	change := func() {
		p = clone(p)
		part := *p.VPCs[vniMain]
		part.Addresses = append(slices.Clone(part.Addresses), remote(vniMain, "10.8.200.1", "192.0.2.2"))
		p.VPCs[vniMain] = &part
	}
	change()
	must(t, w.ApplyParts(p))
	if has() {
		t.Error("a row of another part was written")
	}
	p.VPCs[vniMain] = w.state().Parts().VPCs[vniMain]
	change()
	w.Recheck()
	must(t, w.ApplyParts(p))
	if !has() || len(w.Repaired()) != 1 {
		t.Error("the row that was deleted by hand was not repaired, or counts as no repair")
	}
	wantState(t, w.Datapath, p.State())
}

func TestADeviceThatVanishesIsNoticedAlthoughItsPartStays(t *testing.T) {
	w := newWorld(t)
	p := w.state().Parts()
	must(t, w.ApplyParts(p))
	must(t, netlink.LinkDel(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: w.twin}}))
	var failed *AttachError
	if err := w.ApplyParts(clone(p)); !errors.As(err, &failed) || failed.Ifindex != w.twin {
		t.Errorf("error %v, want one of device %d", err, w.twin)
	}
}

func TestInvalidPartsChangeNothing(t *testing.T) {
	w := newWorld(t)
	p := w.state().Parts()
	must(t, w.ApplyParts(p))
	bad := clone(p)
	part := *p.VPCs[vniRed]
	part.Addresses = append(slices.Clone(part.Addresses), remote(vniRed, "::ffff:10.0.1.10", "192.0.2.2"))
	bad.VPCs[vniRed], bad.VPCs[vniBlue] = &part, &state.State{VPCs: p.VPCs[vniBlue].VPCs}
	if err := w.ApplyParts(bad); !errors.Is(err, state.ErrInvalid) {
		t.Errorf("error %v, want an invalid state", err)
	}
	wantState(t, w.Datapath, p.State())
}
