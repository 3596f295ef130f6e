// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipam chooses addresses and VNIs from a snapshot of the store. It is
// pure: it reads nothing but its arguments, and the caller claims the result. The
// chosen rows belong into the store before they are claimed (Assume), in the
// transaction of the choice, so that the next choice sees them.
//
// Free addresses are assigned in ring order behind a cursor per subnet and
// family, so that an address stays unused as long as possible after its release.
// The cost of a choice depends on the addresses in use, never on the size of a
// range.
package ipam
