// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transport has the HTTP transports of the nodes of the scale lab: one counts the data that
// the API server sends to a node, the other answers the first lists of a node from memory.
package transport
