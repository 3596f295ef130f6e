// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package descriptor describes kinds of API objects to everything that treats all kinds
// alike: how an object becomes a row, where the row is kept, what its conditions are, and
// which part of the kind a node follows. It imports no kind.
package descriptor
