// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cniserver carries out the CNI commands of one node. It waits for
// what the control plane decided, journals what it is about to do, attaches,
// has the datapath programmed, and undoes all of it in reverse when a step
// fails. What it needs from the rest of the daemon it declares as interfaces.
//
// An ADD passes these steps; the right column is what a crash right behind the
// step leaves, and Server.Reconcile or a DEL undoes:
//
//	Decisions.Await    -
//	journal.Begin      record, phase intended
//	Driver.Attach      the device
//	journal.Complete   record, phase done: the datapath may carry packets
//	Datapath.Program   map entries
//
// A DEL goes the other way: journal.Leave, Datapath.Unprogram,
// Driver.Detach, journal.Retire, Releaser.Release.
package cniserver
