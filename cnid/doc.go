// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cnid is the node daemon. Run assembles it from its parts:
//
//	API --sources--> store --+
//	                         +--> plan.Planner --> netdev, netfilter, datapath
//	shim --cniserver--> journal
//
// The syncer computes what the node has to hold whenever store or journal
// changed, and makes it so. An ADD is answered when a pass that included its
// journal record has succeeded. Until everything that the node needs has been
// read from the API once, the syncer leaves what an earlier process programmed
// as it is, and only takes away what leaves: a restart loses no packet, with
// the API or without.
//
// The journal says what is on this node, the API what was decided. The
// releaser deletes the Addresses of pods that are neither on this node nor to
// come back.
package cnid
