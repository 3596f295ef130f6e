// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 holds the network states of nodes, and the results of policies on them,
// in the group nmstate.io: NodeNetworkState and NodeNetworkConfigurationEnactment; and
// NodeNetworkConfigurationPolicy of package api/nmstate/v1 in its older version. Fields have the
// names that kubernetes-nmstate gives them.
//
// It holds types and validation markers, and no logic.
//
// +kubebuilder:object:generate=true
// +groupName=nmstate.io
package v1beta1
