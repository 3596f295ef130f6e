// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package roles has the rows of bouncers and dividers: which nodes are members of a role,
// and which lists of members the nodes have programmed (docs/design/140).
package roles
