// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/store"
)

func newStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.NewCentral()
	if err != nil {
		t.Fatal(err)
	}
	return s.Store
}

func update(t *testing.T, s *store.Store, fn func(tx store.Tx) error) {
	t.Helper()
	if err := s.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func revision(s *store.Store) (revision uint64) {
	s.View(func(tx store.ReadTx) { revision = tx.Revision() })
	return revision
}

func TestUpdate_NilOrError_CommitsOrAborts(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx store.Tx) error { return store.PutVPC(tx, &store.VPC{Name: "blue"}) })

	refusal := errors.New("refused")
	err := s.Update(func(tx store.Tx) error {
		if err := store.PutVPC(tx, &store.VPC{Name: "red"}); err != nil {
			return err
		}
		if store.GetVPC(tx, "red") == nil {
			t.Error("a transaction doesn't see its own write")
		}
		return refusal
	})
	if !errors.Is(err, refusal) {
		t.Errorf("Update returned %v, want the error of its function", err)
	}
	s.View(func(tx store.ReadTx) {
		if store.GetVPC(tx, "blue") == nil {
			t.Error("a committed row is missing")
		}
		if store.GetVPC(tx, "red") != nil {
			t.Error("an aborted row is there")
		}
	})
}

func TestRevision_CommitWithChange_Rises(t *testing.T) {
	s := newStore(t)
	put := func(tx store.Tx) error { return store.PutVPC(tx, &store.VPC{Name: "blue"}) }
	if got := revision(s); got != 0 {
		t.Errorf("revision of an empty store is %d, want 0", got)
	}
	update(t, s, put)
	if got := revision(s); got != 1 {
		t.Errorf("revision after a write is %d, want 1", got)
	}
	update(t, s, put)
	if got := revision(s); got != 1 {
		t.Errorf("revision after writing an equal row is %d, want 1 still", got)
	}
	update(t, s, func(tx store.Tx) error { store.DeleteVPC(tx, "blue", ""); return nil })
	if got := revision(s); got != 2 {
		t.Errorf("revision after a delete is %d, want 2", got)
	}
}

func TestWait_ReadRowChanges_LooksAgain(t *testing.T) {
	s := newStore(t)
	looked := make(chan struct{}, 8)
	done := make(chan error, 1)
	go func() {
		done <- s.Wait(context.Background(), func(tx store.ReadTx, _ *store.WatchSet) bool {
			vpc := store.GetVPC(tx, "blue")
			looked <- struct{}{}
			return vpc != nil && vpc.Ready
		})
	}()
	<-looked
	update(t, s, func(tx store.Tx) error { return store.PutVPC(tx, &store.VPC{Name: "blue"}) })
	<-looked
	update(t, s, func(tx store.Tx) error { return store.PutVPC(tx, &store.VPC{Name: "blue", Ready: true}) })
	if err := <-done; err != nil {
		t.Errorf("Wait returned %v, want nil", err)
	}
}

func TestWait_ContextEnds_Returns(t *testing.T) {
	s := newStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	err := s.Wait(ctx, func(tx store.ReadTx, _ *store.WatchSet) bool {
		tx.Revision()
		cancel()
		return false
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Wait returned %v, want the context's error", err)
	}
}

func TestNew_Addresses_AreFoundButNotCounted(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	row := &store.Address{
		Meta: store.Meta{UID: "a"}, Name: "blue.10.0.0.1", VPC: "blue", Subnet: "blue1", IP: netip.MustParseAddr("10.0.0.1"),
		Node: "node1", Holder: store.Holder{UID: "pod"},
	}
	update(t, s, func(tx store.Tx) error { return store.PutAddress(tx, row) })
	s.View(func(tx store.ReadTx) {
		for what, list := range map[string][]*store.Address{
			"by VPC": store.AddressesByDomain(tx, "blue"), "by node": store.AddressesByNode(tx, "node1"), "by holder": store.AddressesNaming(tx, "pod"),
		} {
			if len(list) != 1 || list[0] != row {
				t.Errorf("%s: %v", what, list)
			}
		}
		if v4, v6 := store.CountAddressesBySubnet(tx, "blue1"); v4 != 0 || v6 != 0 {
			t.Errorf("%d and %d addresses are counted", v4, v6)
		}
	})
	update(t, s, func(tx store.Tx) error { store.DeleteAddress(tx, row.Name, "a"); return nil })
	s.View(func(tx store.ReadTx) {
		if list := store.ListAddresses(tx); len(list) != 0 {
			t.Errorf("left after it was deleted: %v", list)
		}
	})
}
