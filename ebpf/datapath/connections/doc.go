// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connections handles the stored flows to services, and the stored flows that network
// policies allow: it lists them, deletes ended flows, and finds sockets that are connected to a
// removed backend.
package connections
