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

// New returns an empty store for any process. It lacks the index of addresses by Subnet, which only
// the operator needs, so that an address takes a fifth less memory. CountAddressesBySubnet returns
// zeroes.
func New() (*Store, error) {
	return memory.New(memory.Index{Table: addresses.Name, Name: bySubnet})
}

// Central is the store of the operator. It also lists and counts the addresses of Subnets.
type Central struct{ *Store }

// NewCentral returns an empty store for the operator.
func NewCentral() (Central, error) {
	s, err := memory.New()
	return Central{s}, err
}

// CentralTx is a snapshot or a transaction of the operator's store.
type CentralTx interface {
	ReadTx

	central()
}

type centralTx struct{ ReadTx }

func (centralTx) central() {}

// Of returns a snapshot or a transaction of the store with the reads that only this store serves.
func (Central) Of(tx ReadTx) CentralTx { return centralTx{tx} }

// ChangesSince lists the changes of the commits after the revision, up to the snapshot tx, as
// memory.ChangesSince does.
func ChangesSince(tx ReadTx, revision uint64) (list []Change, ok bool) {
	return memory.ChangesSince(tx, revision)
}

// ErrConflict reports that a row with another key holds a value that is unique, such
// as an address within a VPC or a VNI.
var ErrConflict = errors.New("already taken")
