// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipamapi has the kinds of the node IPAM API in both of its API groups.
package ipamapi
