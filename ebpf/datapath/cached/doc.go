// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cached reads and writes the rows of single addresses that a node has looked up
// because no complete table of it has them, and reads the misses that ask for them
// (docs/design/142).
package cached
