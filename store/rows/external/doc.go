// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package external has the rows for what tenants may have outside of their VPCs:
// external addresses with the pools that they are from, and access to nodes.
package external
