// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile attacks the product on a real cluster as an outsider does: tenants
// with admin rights in their namespaces and raw sockets in their pods, and a daemon's
// stolen token. It uses nothing of Alioth but the API server and packets.
package hostile
