// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package state describes the wanted state of a node's datapath, in numbers and addresses alone.
// It is pure: it imports neither the BPF library nor netlink, and package datapath checks at
// compile time that its constants equal the constants of the programs.
//
// A State is the whole. Parts are its content in parts; a change concerns few of them.
// Parts.Since lists the Changes between two Parts, and Parts.Validate finds contradictions in the
// changes.
package state
