// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policyhandler brings policies to nodes: it writes what package cnid/nmstate/policy/enact
// decides. A Handler makes one node's enactments and desired state; it runs in the node's
// daemon, or for all nodes in the operator. Rollouts run in the operator alone: they permit
// nodes to change, and write the status of policies. Once does both without either process.
//
// A handler decides on the rows of a store, which may be older than the objects. Each write
// therefore names the object that the decision was made on: it fails if there is a newer one,
// and the next pass decides again.
package policyhandler
