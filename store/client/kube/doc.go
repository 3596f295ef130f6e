// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube is the daemon's client of the API server: the few requests that a node
// makes, over client-go's REST client. It uses no discovery and links only the kinds
// of its scheme, because linked code needs memory on every node (docs/design/063).
package kube
