// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package vpcs has the kinds of VPCs: their networks, subnets and addresses, the Services that
// all VPCs reach, the rights of tenants outside of VPCs, and the roll calls of nodes.
package vpcs
