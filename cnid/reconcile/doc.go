// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reconcile programs the kernel of a node according to store and journal, in
// passes: each plans the desired state, and programs the difference.
//
// It has three parts, which are constructed in this order:
//
//   - Progress takes requests for passes and reports how these went. It depends on
//     nothing, so everything that requests a pass or waits for one is given it.
//   - Kernel programs devices, packet filter and datapath.
//   - Loop makes the passes. It is constructed last, with everything that a pass
//     reads, and with the Observer that it notifies.
package reconcile
