// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attachment establishes, keeps and removes the attachments of one node's
// pods. It writes each step to the journal first, attaches by the driver of the
// attachment's kind, requests the programming of the datapath, and undoes all steps in
// reverse order if one fails. It does not know CNI: package cniserver has the verbs on
// top of it. The package declares interfaces for its use of the rest of the daemon.
//
// The result of a pod's request is a list of attachments. They are decided together,
// attached in parallel with one deadline, and rolled back together. Establish passes
// these steps. The right column is the state that a crash after the step leaves, which
// Manager.Reconcile or Remove undoes:
//
//	Decisions.Await    -
//	journal.Begin      records, phase intended
//	Decisions.Confirm  the same
//	Driver.Attach      the devices
//	journal.Complete   records, phase done: the datapath may carry packets
//	Datapath.Program   map entries
//
// Remove has the opposite steps: journal.Leave, Datapath.Unprogram, Driver.Detach,
// journal.Retire, Releaser.Release.
package attachment
