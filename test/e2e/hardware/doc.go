// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hardware has the end-to-end tests that need a node with a network adapter with
// virtual functions, and a kernel with more kinds of links than this machine's may have.
// Their lab has a virtual machine as its second node (docs/design/115). Run them by
// `make test-hardware`.
//
// Everything takes long on the virtual machine: tests here are about what other nodes can't show.
// Tests of more than a few minutes run with ALIOTH_SOAK=1.
package hardware
