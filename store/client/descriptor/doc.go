// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package descriptor describes kinds of API objects to everything that treats all kinds alike:
// the conversion of an object to a row, the table of the row, the conditions of the object, and
// the part of the kind that a node follows. It imports no kind.
package descriptor
