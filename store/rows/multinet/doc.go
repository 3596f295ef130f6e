// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package multinet has the rows for networks outside of every VPC: networks of DANM in both
// API groups, TenantConfigs, and the numbers that these hand out.
package multinet
