// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy makes the desired network states of nodes from policies. It decides which
// policies are for a node (Applies), what they mean there (Instantiate), who has which field
// (Aggregate), what a node was before (Excerpt, Origin), what becomes of a policy that is gone
// (Undo), and which nodes may change at the same time (NextSlots).
//
// States are JSON values with the names of a state document (package
// api/nmstate/document), after the captures of a policy were rendered. Fields that the
// document does not know are kept: the engine refuses them with their paths.
//
// The package is pure. It neither changes nor keeps its inputs, and what it returns shares
// nothing with them, Seen excepted.
package policy
