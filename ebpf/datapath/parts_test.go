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
)

// every lists the VNIs of all parts.
func every(p Parts) []uint32 { return slices.Sorted(maps.Keys(p)) }

// compile turns a whole State into rows.
func compile(s State, have *tables) *tables {
	p := s.Parts()
	return p.compile(every(p), have)
}

func remote(vni uint32, addr, node string) Address {
	return Address{VNI: vni, IP: ip(addr), Kind: Remote, Node: ip(node), MAC: macR}
}

func TestAStateIsTheSumOfItsParts(t *testing.T) {
	s := smallState()
	s.VPCs = append(s.VPCs, VPC{VNI: 6, Prefixes: []netip.Prefix{px("10.0.0.0/16")}})
	s.Addresses = append(s.Addresses, remote(6, "10.0.1.10", "192.0.2.2"))
	s.sort()
	p := s.Parts()
	if d := cmp.Diff([]uint32{0, 5, 6}, every(p)); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
	if d := cmp.Diff(s, p.State(), sameAddr); d != "" {
		t.Errorf("together (-want +got):\n%s", d)
	}
}

func TestPartsThatContradictEachOtherAreRefused(t *testing.T) {
	other := func() *State {
		return &State{VPCs: []VPC{{VNI: 6}}, Interfaces: []Interface{{
			Ifindex: 8, VNI: 6, MAC: macB, Addrs: []netip.Addr{ip("10.0.1.10")}, Shadow4: ip("169.254.64.11"),
		}}}
	}
	for name, c := range map[string]struct {
		change func(Parts)
		sound  bool
	}{
		"sound":                    {func(Parts) {}, true},
		"a device of two VPCs":     {func(p Parts) { p[6].Interfaces[0].Ifindex = 7 }, false},
		"a shadow of two VPCs":     {func(p Parts) { p[6].Interfaces[0].Shadow4 = ip("169.254.64.10") }, false},
		"a namespace without VPC":  {func(p Parts) { delete(p, 5) }, false},
		"rows in another's part":   {func(p Parts) { p[6].Subnets = []Subnet{{5, px("10.0.1.0/24")}} }, false},
		"a VPC in the part of all": {func(p Parts) { p[0].VPCs = []VPC{{VNI: 7}} }, false},
		"nodes in a VPC's part":    {func(p Parts) { p[6].Nodes = []netip.Addr{ip("192.0.2.9")} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			last := smallState().Parts()
			last[6] = other()
			now := maps.Clone(last)
			now[0], now[6] = &State{}, other()
			*now[0] = *last[0]
			c.change(now)
			err := now.validate(now.differing(last), last)
			if c.sound != (err == nil) || !c.sound && !errors.Is(err, ErrInvalidState) {
				t.Errorf("error is %v, want none: %v", err, c.sound)
			}
		})
	}
}

// TestWhatIsCompiledPartByPartIsWhatIsCompiledAtOnce replaces random parts, and
// keeps the rows as applySome does.
func TestWhatIsCompiledPartByPartIsWhatIsCompiledAtOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	have, last := newTables(), Parts{}
	for range 400 {
		now := maps.Clone(last)
		for range 1 + random.IntN(3) {
			vni := uint32(random.IntN(6))
			if random.IntN(4) == 0 {
				delete(now, vni)
				continue
			}
			now[vni] = randomPart(random, vni)
		}
		vnis := now.differing(last)
		want := now.compile(vnis, have)
		have.swap(have.only(last.compile(vnis, have), want), want)
		if d := cmp.Diff(now.State(), have.state(), sameAddr); d != "" {
			t.Fatalf("parts %v (-want +got):\n%s", vnis, d)
		}
		last = now
	}
}

// randomPart makes a part that contradicts no other one.
func randomPart(random *rand.Rand, vni uint32) *State {
	var s State
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
			backends := []Backend{{ip("192.0.2.9"), uint16(1 + random.IntN(3))}}
			s.Services = append(s.Services, Service{VIP: ip(fmt.Sprintf("10.96.0.%d", 1+i)), Port: 53, Proto: protoUDP, Backends: backends})
		})
		some(func(i int) { s.Probes = append(s.Probes, ProbeTarget{ip(fmt.Sprintf("10.0.2.%d", i)), ip(shadowA)}) })
		s.sort()
		return &s
	}
	s.VPCs = []VPC{{VNI: vni, EgressMasquerade: random.IntN(2) == 0}}
	some(func(i int) { s.VPCs[0].Prefixes = append(s.VPCs[0].Prefixes, px(fmt.Sprintf("10.%d.0.0/16", i))) })
	some(func(i int) {
		s.Addresses = append(s.Addresses, remote(vni, fmt.Sprintf("10.0.1.%d", i), fmt.Sprintf("192.0.2.%d", 1+random.IntN(2))))
	})
	some(func(i int) { s.Subnets = append(s.Subnets, Subnet{vni, px(fmt.Sprintf("10.0.%d.0/24", i))}) })
	some(func(i int) {
		s.Interfaces = append(s.Interfaces, Interface{Ifindex: int(10*vni) + i, VNI: vni, MAC: macA, Addrs: []netip.Addr{ip(fmt.Sprintf("10.0.3.%d", i))}})
	})
	s.sort()
	return &s
}

// others are remote addresses that come and go in a world's VPC.
func others(random *rand.Rand, vni uint32) []Address {
	var list []Address
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
		now = maps.Clone(now)
		vni := []uint32{vniRed, vniBlue, vniOpen}[random.IntN(3)]
		switch random.IntN(4) {
		case 0: // the VPC leaves, and with it the namespaces that are in it
			delete(now, vni)
			node := *base[0]
			node.Namespaces = slices.DeleteFunc(slices.Clone(node.Namespaces), func(n Namespace) bool {
				return slices.ContainsFunc(n.Memberships, func(m Membership) bool { return now[m.VNI] == nil })
			})
			now[0] = &node
		case 1: // all is again as it was
			now = maps.Clone(base)
		default:
			part := *base[vni]
			part.Addresses = append(slices.Clone(part.Addresses), others(random, vni)...)
			now[vni] = &part
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
	address := p[vniRed].Addresses[0]
	key, _ := address.row()
	must(t, w.objects.AliothAddresses.Delete(key))
	has := func() bool {
		found, err := w.reader.HasAddress(address.VNI, address.IP)
		must(t, err)
		return found
	}
	change := func() {
		p = maps.Clone(p)
		part := *p[vniMain]
		part.Addresses = append(slices.Clone(part.Addresses), remote(vniMain, "10.8.200.1", "192.0.2.2"))
		p[vniMain] = &part
	}
	change()
	must(t, w.ApplyParts(p))
	if has() {
		t.Error("a row of another part was written")
	}
	p[vniMain] = w.state().Parts()[vniMain]
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
	if err := w.ApplyParts(maps.Clone(p)); !errors.As(err, &failed) || failed.Ifindex != w.twin {
		t.Errorf("error %v, want one of device %d", err, w.twin)
	}
}

func TestInvalidPartsChangeNothing(t *testing.T) {
	w := newWorld(t)
	p := w.state().Parts()
	must(t, w.ApplyParts(p))
	bad := maps.Clone(p)
	part := *p[vniRed]
	part.Addresses = append(slices.Clone(part.Addresses), remote(vniRed, "::ffff:10.0.1.10", "192.0.2.2"))
	bad[vniRed], bad[vniBlue] = &part, &State{VPCs: p[vniBlue].VPCs}
	if err := w.ApplyParts(bad); !errors.Is(err, ErrInvalidState) {
		t.Errorf("error %v, want an invalid state", err)
	}
	wantState(t, w.Datapath, p.State())
}
