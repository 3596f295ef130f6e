// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// displaced has the kept rows whose names now belong to Addresses of other holders. Key: Name.
var displaced = memory.Define(memory.Table[store.Address]{
	Name: "displaced address",
	Key:  func(a *store.Address) []byte { return memory.TextKey(a.Name) },
})

// Put puts the row of an Address object. A kept row of another holder in its place
// comes back once this object is gone.
func Put(tx store.Tx, row *store.Address) error {
	if err := displace(tx, row); err != nil {
		return err
	}
	return store.PutAddress(tx, row)
}

// Confirm replaces an assumed row as store.ConfirmAddress does, and a kept one as Put does.
func Confirm(tx store.Tx, assumed, row *store.Address) error {
	if store.GetAddress(tx, row.Name) == assumed {
		if err := displace(tx, row); err != nil {
			return err
		}
	}
	return store.ConfirmAddress(tx, assumed, row)
}

func displace(tx store.Tx, row *store.Address) error {
	held := store.GetAddress(tx, row.Name)
	if held == nil || !held.Kept || held.Holder == row.Holder {
		return nil
	}
	if _, err := displaced.Put(tx, held); err != nil {
		return fmt.Errorf("note that address %s has another holder: %w", row.Name, err)
	}
	return nil
}

// Remove removes the row of an Address object that is gone, and keeps the address for the
// pod that holds it while the pod lives: the object was deleted by hand, or with a restored
// older state of the API. The row is the evidence, because only the operator creates
// Addresses. Remove reports whether the row was there.
func Remove(tx store.Tx, name, uid string) (bool, error) {
	row := store.GetAddress(tx, name)
	if gone, kept, err := forget(tx, name, uid); !gone || kept || err != nil {
		return gone, err
	}
	if !livesWith(tx, row) {
		return true, nil
	}
	return true, keep(tx, row)
}

// Forget removes the row of an Address object that the operator has deleted. Nobody keeps
// the address but the pod whose kept row the object has displaced. Forget reports whether
// the row was there.
func Forget(tx store.Tx, name, uid string) (bool, error) {
	gone, _, err := forget(tx, name, uid)
	return gone, err
}

func forget(tx store.Tx, name, uid string) (gone, kept bool, _ error) {
	if !store.DeleteAddress(tx, name, uid) {
		return false, false, nil
	}
	before := displaced.Remove(tx, memory.TextKey(name), "")
	if before == nil || !livesWith(tx, before) || hasOther(tx, before) {
		return true, false, nil
	}
	return true, true, keep(tx, before)
}

// livesWith reports whether the pod that holds an address lives, and the address counts for
// it.
func livesWith(tx store.ReadTx, row *store.Address) bool {
	pod := store.GetPod(tx, row.Holder.UID)
	return pod != nil && pod.Node != "" && !pod.Deleting && !pod.Terminal && pod.Holds(row)
}

// hasOther reports whether the holder of an address has addresses of another choice at the
// same interface.
func hasOther(tx store.ReadTx, row *store.Address) bool {
	return slices.ContainsFunc(store.AddressesOf(tx, row.Holder, row.Node), func(other *store.Address) bool {
		return other.Attachment == row.Attachment && (other.Domain() != row.Domain() || !slices.Equal(other.Set, row.Set))
	})
}

// keep puts the row again, without an object. The controller of addresses deletes it after
// the pod has ended.
func keep(tx store.Tx, row *store.Address) error {
	kept := *row
	kept.Kept = true
	return store.AssumeAddress(tx, &kept)
}
