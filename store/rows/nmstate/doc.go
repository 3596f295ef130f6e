// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nmstate has the rows of node network states, of the policies that make them, and of the
// enactments. An enactment has a policy's result on a node.
//
// Documents in rows are JSON objects. Rows share them, so no code changes one.
package nmstate
