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
