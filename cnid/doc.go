// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cnid is the node daemon: its configuration, the construction of its parts, and
// Run.
//
//	API --subscriptions--> store --+
//	                               +--> reconcile: plan --> netdev, netfilter, datapath
//	CNI --cniserver--> attachment --> journal
//
// The passes of package reconcile compute the desired state of the node whenever store or
// journal change, and program the difference. ADD returns when a pass that included its
// journal record has succeeded. Passes begin after the first complete read of the API.
// Before, only removed attachments are unprogrammed: a restart loses no packet, with the API or
// without.
//
// The journal has the attachments of this node, the API the decisions. Package release
// deletes the Addresses of pods that have left this node and will not come back.
//
// Construction has three steps, and each step gets the result of the step before: newNode opens
// the node's side, newDaemon connects it with the API's side, and modules lists the areas of the
// daemon, which run starts. No field is set later.
package cnid
