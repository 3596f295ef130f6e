// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory has the mechanics of the store: typed tables with secondary indexes,
// transactions over all tables at once, waiting, and a log of changes. It has no types of
// rows: each package with rows defines its tables here.
//
// Rows are immutable: the caller must not change a row after it has put it, and a reader
// must copy a row before changing anything in it, slices included. Reads therefore never
// block writes and need no lock. Writes are serialised; no blocking work belongs inside
// Update.
//
// Rows mirror API objects and arrive from several sources in any order, so Put ignores
// a row that is older than the one held (same UID, lower resource version), and Remove
// ignores a UID that is not the one held.
package memory
