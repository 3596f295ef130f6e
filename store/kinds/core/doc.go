// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package core has the kinds of Kubernetes itself that Alioth reads: namespaces, nodes, pods,
// Services with their ranges, and EndpointSlices.
package core
