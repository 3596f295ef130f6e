// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipam chooses addresses and VNIs from a snapshot of the store. It is
// pure: it reads nothing but its arguments, and whoever calls it claims what it
// chose. Between the choice and the claim the chosen rows belong into the
// store (Assume), in the same transaction, so that the next choice sees them.
//
// Free addresses are handed out in ring order behind a cursor per subnet and
// family, so that an address rests as long as possible before it is used again.
// The cost of a choice depends on the addresses in use, never on the size of a
// range.
package ipam
