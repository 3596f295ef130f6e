// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package world is a node with interfaces of several VPCs. Tests run the programs there with single
// frames.
package world
