// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package external has the rows about tenants' rights outside of their VPCs: external addresses
// with their pools, and access to nodes.
package external
