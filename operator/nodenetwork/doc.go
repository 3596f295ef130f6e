// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodenetwork lets policies reach the networks of nodes. It grants nodes slots for
// their changes, and writes the status of policies. In the centralized mode it does the part of
// the nodes as well: it writes their enactments and desired states. Package
// cnid/nmstate/policy/enact decides what to write.
package nodenetwork
