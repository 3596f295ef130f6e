// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connections has the flows to services that the programs remember: it lists
// them, forgets those that have ended, and finds sockets that lead to no backend any
// more.
package connections
