// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/store"
)

// described returns the changes since a revision, for a person.
func described(s *store.Store, revision uint64) (list []string, ok bool) {
	s.View(func(tx store.ReadTx) {
		var changes []store.Change
		changes, ok = store.ChangesSince(tx, revision)
		for _, c := range changes {
			list = append(list, describe(c.Old)+" to "+describe(c.New))
		}
	})
	return list, ok
}

func describe(row any) string {
	switch row := row.(type) {
	case nil:
		return "none"
	case *store.VPC:
		return fmt.Sprintf("VPC %s %d", row.Name, row.VNI)
	case *store.Address:
		return "Address " + row.Name
	}
	return fmt.Sprintf("%T", row)
}

func TestChangesSince_Commits_RowChangesTold(t *testing.T) {
	s := newStore(t)
	vpc := func(version string, vni uint32) func(store.Tx) error {
		return func(tx store.Tx) error {
			return store.PutVPC(tx, &store.VPC{Meta: store.Meta{ResourceVersion: version}, Name: "blue", VNI: vni})
		}
	}
	update(t, s, vpc("1", 1))
	update(t, s, func(tx store.Tx) error {
		err := store.PutAddress(tx, &store.Address{Name: "blue.10.0.0.1", VPC: "blue", Subnet: "blue1", IP: netip.MustParseAddr("10.0.0.1")})
		return errors.Join(err, store.PutVPC(tx, &store.VPC{Meta: store.Meta{ResourceVersion: "1"}, Name: "blue", VNI: 1})) // nothing new
	})
	update(t, s, vpc("2", 1)) // a new version alone
	update(t, s, vpc("3", 2))
	_ = s.Update(func(tx store.Tx) error { return errors.Join(vpc("4", 3)(tx), errors.New("refused")) })
	update(t, s, func(tx store.Tx) error { store.DeleteVPC(tx, "blue", ""); return nil })
	want := []string{"none to VPC blue 1", "none to Address blue.10.0.0.1", "VPC blue 1 to VPC blue 2", "VPC blue 2 to none"}
	for since := range want {
		if got, ok := described(s, uint64(since)); !ok || !cmp.Equal(want[since:], got) {
			t.Errorf("since revision %d: %q, %v; want %q", since, got, ok, want[since:])
		}
	}
	if got, ok := described(s, uint64(len(want))); !ok || len(got) != 0 {
		t.Errorf("since the last revision: %q, %v; want nothing", got, ok)
	}
}

func TestChangesSince_LaterCommit_NotIncluded(t *testing.T) {
	s := newStore(t)
	put := func(name string) {
		update(t, s, func(tx store.Tx) error { return store.PutVPC(tx, &store.VPC{Name: name}) })
	}
	put("blue")
	s.View(func(tx store.ReadTx) {
		put("red")
		if got, ok := store.ChangesSince(tx, 0); !ok || len(got) != 1 {
			t.Errorf("a snapshot from before the second commit knows %d changes, %v; want 1", len(got), ok)
		}
	})
}

// TestChangesSince_ReaderFollows_EqualsStore follows with random pauses,
// some of them so long that the store forgets, and others for single commits.
func TestChangesSince_ReaderFollows_EqualsStore(t *testing.T) {
	s := newStore(t)
	random := rand.New(rand.NewPCG(1, 2))
	copied, at, forgot, followed := map[string]*store.VPC{}, uint64(0), 0, 0
	for range 60 {
		for range 1 + random.IntN(80)*random.IntN(80) {
			name := fmt.Sprintf("vpc%d", random.IntN(30))
			update(t, s, func(tx store.Tx) error {
				if random.IntN(3) == 0 {
					store.DeleteVPC(tx, name, "")
					return nil
				}
				return store.PutVPC(tx, &store.VPC{Name: name, Message: fmt.Sprint(random.IntN(5))})
			})
		}
		s.View(func(tx store.ReadTx) {
			changes, ok := store.ChangesSince(tx, at)
			at = tx.Revision()
			all := map[string]*store.VPC{}
			for _, row := range store.ListVPCs(tx) {
				all[row.Name] = row
			}
			if !ok {
				forgot++
				copied = all
				return
			}
			followed++
			for _, c := range changes {
				if old, was := c.Old.(*store.VPC); was {
					delete(copied, old.Name)
				}
				if row, is := c.New.(*store.VPC); is {
					copied[row.Name] = row
				}
			}
			if d := cmp.Diff(all, copied); d != "" {
				t.Fatalf("at revision %d (-store +reader):\n%s", at, d)
			}
		})
	}
	if forgot == 0 || followed == 0 {
		t.Errorf("the store forgot %d times and remembered %d times; the test wants both", forgot, followed)
	}
}
