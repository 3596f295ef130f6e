// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bpftest opens datapaths in network namespaces for tests, with programs that the
// tests of a package share, and sends traffic between the namespaces.
package bpftest
