// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube is the daemon's client of the API server: the few requests that
// a node makes, over client-go's REST client. It asks for no discovery and links
// no kind but those of its scheme, because what a process links lies in the
// node's memory (docs/design/063).
package kube
