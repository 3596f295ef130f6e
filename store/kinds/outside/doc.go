// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outside has the kinds of networks outside of every VPC: the networks and TenantConfigs
// of DANM in both API groups, network definitions with the grants of their plugins, and the
// claims of networks and their wishes for nodes.
package outside
