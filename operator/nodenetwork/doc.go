// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodenetwork lets policies reach the networks of nodes: it grants nodes the slots in
// which they may change, and writes the status of policies. In the centralized mode it does
// the part of the nodes as well: it writes their enactments and desired states. What is to be
// written is decided by package cnid/nmstate/policy/enact.
package nodenetwork
