// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package state describes what the datapath of a node has to hold, in numbers and
// addresses alone. It is pure: it imports neither the BPF library nor netlink, and
// package datapath checks at compile time that its constants are those of the
// programs.
//
// A State is the whole. Parts are the same in parts, of which a change concerns few:
// Parts.Since lists the Changes between two, and Parts.Validate looks for
// contradictions in what has changed.
package state
