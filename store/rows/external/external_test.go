// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package external_test

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

// Another Service has chosen an external address meanwhile that was made for one and
// deleted before that was answered.
func TestExternalAddress_GoneChosenAgain_NewHolderStays(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	update := func(fn func(tx store.Tx) error) {
		t.Helper()
		if err := s.Update(fn); err != nil {
			t.Fatal(err)
		}
	}
	row := func(holder string) *external.Address {
		return &external.Address{
			IP: netip.MustParseAddr("192.0.2.7"), Pool: "edge",
			Holder: store.Holder{Kind: store.HolderService, Namespace: "ns", Name: holder, UID: holder},
		}
	}
	real := func() *external.Address {
		made := row("first")
		made.Meta = store.Meta{UID: "real", ResourceVersion: "5"}
		return made
	}
	var assumed *external.Address
	update(func(tx store.Tx) error { return external.AssumeAddress(tx, row("first")) })
	s.View(func(tx store.ReadTx) { assumed = external.GetAddress(tx, row("").IP) })
	update(func(tx store.Tx) error {
		if err := external.PutAddress(tx, real()); err != nil {
			return err
		}
		external.DeleteAddress(tx, row("").IP, "real")
		return external.AssumeAddress(tx, row("second"))
	})
	update(func(tx store.Tx) error { return external.ConfirmAddress(tx, assumed, real()) })
	s.View(func(tx store.ReadTx) {
		if held := external.GetAddress(tx, row("").IP); held == nil || held.Holder.Name != "second" || held.UID != "" {
			t.Errorf("the row is %+v, want the second's, assumed", held)
		}
	})
}
