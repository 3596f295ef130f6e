// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kinds is the only bridge between API objects and store rows. It has one
// descriptor per kind of object: how the object becomes a row, where the row is kept,
// what its conditions say, and which part of the kind a node follows. Operator, daemon
// and aliothctl go by the descriptors, so that a new kind is a new file here.
//
// Conversions are pure functions.
package kinds
