// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/state/statetest"
	"github.com/alioth-net/alioth/ebpf/datapath/tables"
)

// others are remote addresses that come and go in a world's VPC.
func others(random *rand.Rand, vni uint32) []state.Address {
	var list []state.Address
	for n := range 20 {
		if random.IntN(2) == 0 {
			list = append(list, statetest.Remote(vni, fmt.Sprintf("10.0.200.%d", n+1), fmt.Sprintf("192.0.2.%d", 2+random.IntN(2))))
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
		now = statetest.Clone(now)
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
			now = statetest.Clone(base)
		case 2:
			if now.VPCs[vni] != nil {
				now.Services[vni] = statetest.RandomServices(random, vni, now.Services[vni])
			}
		default:
			part := *base.VPCs[vni]
			part.Addresses = append(slices.Clone(part.Addresses), others(random, vni)...)
			now.VPCs[vni] = &part
		}
		Must(t, w.ApplyParts(now))
		wantState(t, w.opened, now.State())
	}
	w.Recheck()
	Must(t, w.ApplyParts(now))
	if repaired := w.Repaired(); len(repaired) > 0 {
		t.Errorf("the maps were not what was noted: %v", repaired)
	}
}

// TestAPartThatIsTheSameIsNotLookedAt deletes a row by hand, which only a
// thorough look repairs while the row's part stays.
func TestAPartThatIsTheSameIsNotLookedAt(t *testing.T) {
	w := newWorld(t)
	p := w.state().Parts()
	Must(t, w.ApplyParts(p))
	address := p.VPCs[vniRed].Addresses[0]
	key := bpf.AliothAddressKey{Vni: address.VNI, Ip: bpf.EncodeAddr(address.IP)}
	Must(t, w.objects.AliothAddresses.Delete(key))
	has := func() bool {
		found, err := tables.HasAddress(bpf.Pinnable(w.objects), address.VNI, address.IP)
		Must(t, err)
		return found
	}
	change := func() {
		p = statetest.Clone(p)
		part := *p.VPCs[vniMain]
		part.Addresses = append(slices.Clone(part.Addresses), statetest.Remote(vniMain, "10.8.200.1", "192.0.2.2"))
		p.VPCs[vniMain] = &part
	}
	change()
	Must(t, w.ApplyParts(p))
	if has() {
		t.Error("a row of another part was written")
	}
	p.VPCs[vniMain] = w.state().Parts().VPCs[vniMain]
	change()
	w.Recheck()
	Must(t, w.ApplyParts(p))
	if !has() || len(w.Repaired()) != 1 {
		t.Error("the row that was deleted by hand was not repaired, or counts as no repair")
	}
	wantState(t, w.opened, p.State())
}

func TestADeviceThatVanishesIsNoticedAlthoughItsPartStays(t *testing.T) {
	w := newWorld(t)
	p := w.state().Parts()
	Must(t, w.ApplyParts(p))
	Must(t, netlink.LinkDel(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: w.twin}}))
	var failed *AttachError
	if err := w.ApplyParts(statetest.Clone(p)); !errors.As(err, &failed) || failed.Ifindex != w.twin {
		t.Errorf("error %v, want one of device %d", err, w.twin)
	}
}

func TestInvalidPartsChangeNothing(t *testing.T) {
	w := newWorld(t)
	p := w.state().Parts()
	Must(t, w.ApplyParts(p))
	bad := statetest.Clone(p)
	part := *p.VPCs[vniRed]
	part.Addresses = append(slices.Clone(part.Addresses), statetest.Remote(vniRed, "::ffff:10.0.1.10", "192.0.2.2"))
	bad.VPCs[vniRed], bad.VPCs[vniBlue] = &part, &state.State{VPCs: p.VPCs[vniBlue].VPCs}
	if err := w.ApplyParts(bad); !errors.Is(err, state.ErrInvalid) {
		t.Errorf("error %v, want an invalid state", err)
	}
	wantState(t, w.opened, p.State())
}
