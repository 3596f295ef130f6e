// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package handler is the state handler of a node: it keeps the node's NodeNetworkState. It
// makes the object, reports what the network of the node is, and leads it to the desired
// state, again whenever somebody has changed it.
//
// Without an API server the handler goes on with the last desired state that it has read.
// The engine changes the network; this package decides when, and tells of it.
package handler
