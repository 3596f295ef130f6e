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
// A caller that keeps something that was made from rows asks ChangesSince what became
// of them, and reads everything only when the store does not remember.
package store
