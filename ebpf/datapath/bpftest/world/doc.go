// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package world is a node with interfaces of several VPCs, on which tests run the programs
// with single frames.
package world
