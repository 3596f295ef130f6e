// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cnid is the node daemon: its configuration, the construction of its parts, and
// Run.
//
//	API --follow--> store --+
//	                        +--> reconcile: plan --> netdev, netfilter, datapath
//	CNI --cniserver--> attachment --> journal
//
// The passes of package reconcile compute what the node has to hold whenever store or
// journal changed, and program the difference. An ADD is answered when a pass that
// included its journal record has succeeded. Until everything that the node needs has
// been read from the API once, no pass is made, and only what leaves is taken away: a
// restart loses no packet, with the API or without.
//
// The journal has what is on this node, the API what was decided. Package release
// deletes the Addresses of pods that are neither on this node nor to come back.
//
// Construction has three steps, each of which is given what the one before has made:
// newNode opens what is on the node, newDaemon connects it with the API's side, and
// modules lists the areas of the daemon, which run starts. No field is set later.
package cnid
