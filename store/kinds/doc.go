// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kinds lists the kinds of objects that have rows. The packages below it are the only
// bridge between API objects and store rows. Each has the kinds of an area, with one
// descriptor per kind: how the object becomes a row, where the row is kept, what its
// conditions say, and which part of the kind a node follows. Operator, daemon and aliothctl
// go by the descriptors, so that a new kind is a new file in the package of its area.
//
// Conversions are pure functions.
package kinds
