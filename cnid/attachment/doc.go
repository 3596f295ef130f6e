// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attachment establishes, keeps and removes the attachments of one node's
// pods. It journals what it is about to do, attaches by the driver of each
// attachment's kind, has the datapath programmed, and undoes all of it in reverse
// when a step fails. It knows no CNI: package cniserver has the verbs on top of it.
// The package declares interfaces for what it needs of the rest of the daemon.
//
// A request of a pod is answered with a list of attachments. They are decided
// together, attached in parallel with one deadline, and rolled back together.
// Establish passes these steps; the right column is what a crash right behind the
// step leaves, and Manager.Reconcile or Remove undoes:
//
//	Decisions.Await    -
//	journal.Begin      records, phase intended
//	Decisions.Confirm  the same
//	Driver.Attach      the devices
//	journal.Complete   records, phase done: the datapath may carry packets
//	Datapath.Program   map entries
//
// Remove goes the other way: journal.Leave, Datapath.Unprogram, Driver.Detach,
// journal.Retire, Releaser.Release.
package attachment
