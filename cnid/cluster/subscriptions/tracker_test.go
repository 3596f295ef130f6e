// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subscriptions

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
)

// addressesGo concerns one who looks for Addresses that have gone, or VPCs that come.
func addressesGo(c store.Change) bool {
	_, vpc := c.New.(*store.VPC)
	_, address := c.Old.(*store.Address)
	return vpc || address
}

func TestTracker_NothingNew_NoSecondLook(t *testing.T) {
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	put := func(fn func(store.Tx) error) func() {
		return func() {
			if err := rows.Update(fn); err != nil {
				t.Fatal(err)
			}
		}
	}
	address := &store.Address{Meta: store.Meta{UID: "a"}, Name: "blue.10.0.0.1", VPC: "blue", Subnet: "blue1", IP: netip.MustParseAddr("10.0.0.1")}
	records := []journal.Record{{Seq: 1}}
	var tracker changeTracker
	for _, step := range []struct {
		name  string
		do    func()
		again bool
	}{
		{"the first time", func() {}, true},
		{"nothing has changed", func() {}, false},
		{"an Address has come, which nobody lacks", put(func(tx store.Tx) error { return store.PutAddress(tx, address) }), false},
		{"a Subnet has come", put(func(tx store.Tx) error { return store.PutSubnet(tx, &store.Subnet{Name: "blue1"}) }), false},
		{"an Address has gone", put(func(tx store.Tx) error { store.DeleteAddress(tx, address.Name, "a"); return nil }), true},
		{"a VPC has come", put(func(tx store.Tx) error { return store.PutVPC(tx, &store.VPC{Name: "blue"}) }), true},
		{"another journal", func() { records = []journal.Record{{Seq: 1}} }, true},
		{"the same journal", func() {}, false},
	} {
		step.do()
		rows.View(func(tx store.ReadTx) {
			if again := tracker.stale(tx, records, addressesGo); again != step.again {
				t.Errorf("%s: looks again %v, want %v", step.name, again, step.again)
			}
		})
	}
}
