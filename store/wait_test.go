// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/store"
)

func TestWait_EachKindOfRead_Wakes(t *testing.T) {
	put := func(row *store.Address) func(tx store.Tx) error {
		return func(tx store.Tx) error { return store.PutAddress(tx, row) }
	}
	row := address("blue", "10.0.0.1")
	tests := map[string]struct {
		ready  func(tx store.ReadTx) bool
		change func(tx store.Tx) error
	}{
		"row that isn't there": {func(tx store.ReadTx) bool { return store.GetAddress(tx, row.Name) != nil }, put(row)},
		"unique index":         {func(tx store.ReadTx) bool { return store.AddressByIP(tx, "blue", row.IP) != nil }, put(row)},
		"list by index":        {func(tx store.ReadTx) bool { return len(store.AddressesNaming(tx, "web")) > 0 }, put(row)},
		"whole table":          {func(tx store.ReadTx) bool { return len(store.ListAddresses(tx)) > 0 }, put(row)},
		"ascending walk": {func(tx store.ReadTx) bool {
			for range store.AddressesFrom(tx, "blue", netip.MustParseAddr("10.0.0.0")) {
				return true
			}
			return false
		}, put(row)},
		"count":    {func(tx store.ReadTx) bool { v4, _ := store.CountAddressesBySubnet(tx, "net1"); return v4 > 0 }, put(row)},
		"revision": {func(tx store.ReadTx) bool { return tx.Revision() > 0 }, put(row)},
		"more rows than are watched one by one": {func(tx store.ReadTx) bool {
			for i := range 2000 {
				store.GetAddress(tx, fmt.Sprint("absent-", i))
			}
			return store.GetAddress(tx, row.Name) != nil
		}, put(row)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			looked, done := make(chan struct{}, 100), make(chan error, 1)
			go func() {
				done <- s.Wait(t.Context(), func(tx store.ReadTx, _ *store.WatchSet) bool {
					defer func() { looked <- struct{}{} }()
					return test.ready(tx)
				})
			}()
			<-looked
			update(t, s, test.change)
			if err := <-done; err != nil {
				t.Errorf("Wait returned %v", err)
			}
		})
	}
}

func TestWait_UnreadRowChanges_NoWake(t *testing.T) {
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	looks, looked, done := 0, make(chan struct{}, 100), make(chan error, 1)
	go func() {
		done <- s.Wait(ctx, func(tx store.ReadTx, _ *store.WatchSet) bool {
			looks++
			store.GetVPC(tx, "blue")
			looked <- struct{}{}
			return false
		})
	}()
	<-looked
	for i := range 50 {
		update(t, s, func(tx store.Tx) error { return store.PutNode(tx, &store.Node{Name: fmt.Sprint("node-", i)}) })
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait returned %v, want the context's error", err)
	}
	if looks != 1 {
		t.Errorf("looked %d times, want once", looks)
	}
}

func TestWait_OutsideChannelCloses_Wakes(t *testing.T) {
	s := newStore(t)
	outside, looked, done := make(chan struct{}), make(chan struct{}, 2), make(chan error, 1)
	go func() {
		done <- s.Wait(t.Context(), func(_ store.ReadTx, ws *store.WatchSet) bool {
			ws.Add(outside)
			looked <- struct{}{}
			select {
			case <-outside:
				return true
			default:
				return false
			}
		})
	}()
	<-looked
	close(outside)
	if err := <-done; err != nil {
		t.Errorf("Wait returned %v", err)
	}
}
