// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/state/statetest"
	"github.com/alioth-net/alioth/ebpf/datapath/tables"
)

// others returns remote addresses that come and go in a world's VPC.
func others(random *rand.Rand, vni uint32) []state.Address {
	var list []state.Address
	for n := range 20 {
		if random.IntN(2) == 0 {
			list = append(list, statetest.Remote(vni, fmt.Sprintf("10.0.200.%d", n+1), fmt.Sprintf("192.0.2.%d", 2+random.IntN(2))))
		}
	}
	return list
}

// TestParts_RandomChanges_MapsHoldThem checks the rows of the maps after each change,
// and at the end that a thorough look finds nothing to repair.
func TestParts_RandomChanges_MapsHoldThem(t *testing.T) {
	w := world.New(t)
	base := w.State().Parts()
	random := rand.New(rand.NewPCG(3, 4))
	now := base
	for range 100 {
		now = statetest.Clone(now)
		vni := []uint32{world.VNIRed, world.VNIBlue, world.VNIOpen}[random.IntN(3)]
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
		bpftest.Must(t, w.ApplyParts(now))
		wantState(t, w.Datapath, now.State())
	}
	w.Recheck()
	bpftest.Must(t, w.ApplyParts(now))
	if repaired := w.Repaired(); len(repaired) > 0 {
		t.Errorf("the maps were not what was noted: %v", repaired)
	}
}

// TestPart_Unchanged_NotLookedAt deletes a row by hand, which only a
// thorough look repairs while the row's part stays.
func TestPart_Unchanged_NotLookedAt(t *testing.T) {
	w := world.New(t)
	p := w.State().Parts()
	bpftest.Must(t, w.ApplyParts(p))
	address := p.VPCs[world.VNIRed].Addresses[0]
	key := bpf.AliothAddressKey{Vni: address.VNI, Ip: bpf.EncodeAddr(address.IP)}
	bpftest.Must(t, w.Objects.AliothAddresses.Delete(key))
	has := func() bool {
		found, err := tables.HasAddress(bpf.Pinnable(w.Objects), address.VNI, address.IP)
		bpftest.Must(t, err)
		return found
	}
	change := func() {
		p = statetest.Clone(p)
		part := *p.VPCs[world.VNIMain]
		part.Addresses = append(slices.Clone(part.Addresses), statetest.Remote(world.VNIMain, "10.8.200.1", "192.0.2.2"))
		p.VPCs[world.VNIMain] = &part
	}
	change()
	bpftest.Must(t, w.ApplyParts(p))
	if has() {
		t.Error("a row of another part was written")
	}
	p.VPCs[world.VNIMain] = w.State().Parts().VPCs[world.VNIMain]
	change()
	w.Recheck()
	bpftest.Must(t, w.ApplyParts(p))
	if !has() || len(w.Repaired()) != 1 {
		t.Error("the row that was deleted by hand was not repaired, or counts as no repair")
	}
	wantState(t, w.Datapath, p.State())
}

func TestDevice_VanishesWhilePartStays_Noticed(t *testing.T) {
	w := world.New(t)
	p := w.State().Parts()
	bpftest.Must(t, w.ApplyParts(p))
	bpftest.Must(t, netlink.LinkDel(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: w.Twin}}))
	var failed *datapath.AttachError
	if err := w.ApplyParts(statetest.Clone(p)); !errors.As(err, &failed) || failed.Ifindex != w.Twin {
		t.Errorf("error %v, want one of device %d", err, w.Twin)
	}
}

func TestParts_Invalid_NothingChanged(t *testing.T) {
	w := world.New(t)
	p := w.State().Parts()
	bpftest.Must(t, w.ApplyParts(p))
	bad := statetest.Clone(p)
	part := *p.VPCs[world.VNIRed]
	part.Addresses = append(slices.Clone(part.Addresses), statetest.Remote(world.VNIRed, "::ffff:10.0.1.10", "192.0.2.2"))
	bad.VPCs[world.VNIRed], bad.VPCs[world.VNIBlue] = &part, &state.State{VPCs: p.VPCs[world.VNIBlue].VPCs}
	if err := w.ApplyParts(bad); !errors.Is(err, state.ErrInvalid) {
		t.Errorf("error %v, want an invalid state", err)
	}
	wantState(t, w.Datapath, p.State())
}
