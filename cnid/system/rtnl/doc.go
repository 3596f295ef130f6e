// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rtnl sends requests to the kernel by rtnetlink(7): several requests in one system
// call (Batch), by sockets of one network namespace (Sockets), and complete lists (Complete).
package rtnl
