// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store has the rows of operator and daemon: one typed table per kind of
// object, with the access that its readers need.
//
//	err := s.Update(func(tx store.Tx) error {
//		return store.PutVPC(tx, &store.VPC{Name: "blue"})
//	})
//	s.View(func(tx store.ReadTx) {
//		blue = store.GetVPC(tx, "blue")
//	})
//
// Package memory keeps them, and has the rules for reading and writing.
//
// A caller that keeps a result of rows reads their changes with ChangesSince. It reads
// all rows only if the store no longer has these changes.
package store

import (
	"errors"

	"github.com/alioth-net/alioth/store/memory"
)

// The types of package memory for packages that read and write rows.
type (
	// Store holds the rows. Its methods may be called from any goroutine.
	Store = memory.Store
	// ReadTx is a consistent snapshot of all tables.
	ReadTx = memory.ReadTx
	// Tx is a transaction that may write. It sees its own writes.
	Tx = memory.Tx
	// WatchSet collects the objects whose changes wake a call of Store.Wait.
	WatchSet = memory.WatchSet
	// Change is the change of one row by a commit.
	Change = memory.Change
	// Meta has the metadata of a row's API object.
	Meta = memory.Meta
)

// New returns an empty store.
func New() (*Store, error) { return memory.New() }

// NewForNode returns an empty store for a node's daemon. It lacks the indexes that
// only the operator needs to assign addresses: AddressesBySubnet panics, and
// CountAddressesBySubnet returns zeroes. An address takes a fifth less memory.
func NewForNode() (*Store, error) {
	return memory.New(memory.Index{Table: addresses.Name, Name: bySubnet})
}

// ChangesSince lists the changes of the commits after the revision, up to the snapshot tx, as
// memory.ChangesSince does.
func ChangesSince(tx ReadTx, revision uint64) (list []Change, ok bool) {
	return memory.ChangesSince(tx, revision)
}

// ErrConflict reports that a row with another key holds a value that is unique, such
// as an address within a VPC or a VNI.
var ErrConflict = errors.New("already taken")
