// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nmstate has the rows of node network states, of the policies that make them, and
// of the enactments, which are what became of a policy on a node.
//
// Documents in rows are JSON objects. Rows share them, so nobody changes one.
package nmstate
