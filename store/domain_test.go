// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/store"
)

func inNetwork(uid, ip string) *store.Address {
	row := address("", ip)
	row.Subnet, row.Network = "", store.NetworkRef{Kind: "DanmNet", Namespace: "shop", Name: "internal", UID: uid}
	row.Name = row.Domain() + "." + ip
	return row
}

func TestAddress_SameIPInDomain_Refused(t *testing.T) {
	s := newStore(t)
	ip := netip.MustParseAddr("10.0.0.1")
	inVPC, first, again := address("blue", "10.0.0.1"), inNetwork("u1", "10.0.0.1"), inNetwork("u2", "10.0.0.1")
	update(t, s, func(tx store.Tx) error {
		return errors.Join(store.PutAddress(tx, inVPC), store.PutAddress(tx, first), store.PutAddress(tx, again))
	})
	misnamed := inNetwork("u1", "10.0.0.1")
	misnamed.Name = "another"
	for name, err := range map[string]error{
		"put":    s.Update(func(tx store.Tx) error { return store.PutAddress(tx, misnamed) }),
		"assume": s.Update(func(tx store.Tx) error { return store.AssumeAddress(tx, misnamed) }),
	} {
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: got %v, want a conflict", name, err)
		}
	}
	s.View(func(tx store.ReadTx) {
		for domain, want := range map[string]*store.Address{"blue": inVPC, "u1.net": first, "u2.net": again, "": nil, "u1": nil} {
			got := store.AddressByIP(tx, domain, ip)
			if (got == nil) != (want == nil) || got != nil && got.Name != want.Name {
				t.Errorf("domain %q: %+v", domain, got)
			}
			n := 0
			for range store.AddressesFrom(tx, domain, netip.MustParseAddr("10.0.0.0")) {
				n++
			}
			if list := store.AddressesByDomain(tx, domain); len(list) != n || n != map[bool]int{true: 1}[want != nil] {
				t.Errorf("domain %q has %d addresses, and %d from 10.0.0.0 on", domain, len(list), n)
			}
		}
	})
}

// A Subnet may have any name that an object can have, even the name of a network's domain.
func TestCountAddresses_SubnetNamedLikeNetwork_CountedApart(t *testing.T) {
	s := newStore(t)
	like := address("blue", "10.0.0.1")
	like.Subnet = "u1.net"
	update(t, s, func(tx store.Tx) error {
		return errors.Join(
			store.PutAddress(tx, like),
			store.PutAddress(tx, inNetwork("u1", "10.0.0.1")),
			store.PutAddress(tx, inNetwork("u1", "fd00::1")),
			store.PutAddress(
				tx,
				inNetwork("u1", "10.0.0.2"),
			),
			store.SetCursor(tx, "u1.net", like.IP),
			store.SetNetworkCursor(tx, "u1.net", netip.MustParseAddr("10.0.0.2")),
		)
	})
	s.View(func(tx store.ReadTx) {
		v4, v6 := store.CountAddressesByNetwork(tx, "u1.net")
		if other, _ := store.CountAddressesBySubnet(tx, "u1.net"); v4 != 2 || v6 != 1 || other != 1 {
			t.Errorf("%d and %d of the network, %d of the subnet", v4, v6, other)
		}
		ofSubnet, ofNetwork := store.Cursor(tx, &store.Subnet{Name: "u1.net"}, ipfamily.IPv4), store.NetworkCursor(tx, "u1.net", ipfamily.IPv4)
		if ofSubnet != like.IP || ofNetwork.String() != "10.0.0.2" || store.NetworkCursor(tx, "u1.net", ipfamily.IPv6).IsValid() {
			t.Errorf("the cursors are %v and %v", ofSubnet, ofNetwork)
		}
	})
	update(t, s, func(tx store.Tx) error {
		store.DropNetworkCursors(tx, "u1.net")
		store.DeleteAddress(tx, "u1.net.10.0.0.1", "")
		return nil
	})
	s.View(func(tx store.ReadTx) {
		if v4, _ := store.CountAddressesByNetwork(tx, "u1.net"); v4 != 1 || store.NetworkCursor(tx, "u1.net", ipfamily.IPv4).IsValid() {
			t.Errorf("%d are left, the cursor is %v", v4, store.NetworkCursor(tx, "u1.net", ipfamily.IPv4))
		}
	})
}

// A status that counts rows of one process's memory never equals the status that the next
// process writes.
func TestCountAddresses_HeldBack_NotCounted(t *testing.T) {
	s := newStore(t)
	held := address("blue", "10.0.0.1")
	held.UID, held.Attachment, held.Kept = "", "", true
	assigned := *held
	assigned.Attachment, assigned.Kept = "eth0", false
	count := func() (n int64) {
		s.View(func(tx store.ReadTx) { n, _ = store.CountAddressesBySubnet(tx, held.Subnet) })
		return n
	}
	for _, step := range []struct {
		name string
		do   func(tx store.Tx) error
		want int64
	}{
		{"held back", func(tx store.Tx) error { return store.AssumeAddress(tx, held) }, 0},
		{"assigned", func(tx store.Tx) error { return store.PutAddress(tx, &assigned) }, 1},
		{"held back again", func(tx store.Tx) error { return store.PutAddress(tx, held) }, 0},
		{"gone", func(tx store.Tx) error { store.DeleteAddress(tx, held.Name, ""); return nil }, 0},
	} {
		update(t, s, step.do)
		if got := count(); got != step.want {
			t.Errorf("%s: the count is %d, want %d", step.name, got, step.want)
		}
	}
}
