// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store is the in-memory database of operator and daemon: one typed
// table per kind of object, secondary indexes instead of maps beside it, and
// transactions over all tables at once.
//
//	err := s.Update(func(tx store.Tx) error {
//		return store.PutVPC(tx, &store.VPC{Name: "blue"})
//	})
//	s.View(func(tx store.ReadTx) {
//		blue = store.GetVPC(tx, "blue")
//	})
//
// Rows are immutable: the caller must not change a row after it has put it, and
// whoever gets one must copy it before changing anything in it, slices included. Reads
// therefore never block writes and need no lock. Writes are serialised; no blocking
// work belongs inside Update.
//
// Whoever keeps something that was made from rows asks ChangesSince what became
// of them, and reads everything only when the store does not remember.
//
// Rows mirror API objects and arrive from several sources in any order, so Put
// ignores a row that is older than the one held (same UID, lower resource
// version), and Delete ignores a UID that is not the one held.
package store
