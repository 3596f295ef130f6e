// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the objects of the node IPAM API in the group acn.azure.com, as the
// early design of Azure CNS Swift V2 has them: PodNetwork, PodNetworkInstance,
// MultiTenantPodNetworkConfig and NodeInfo. PodNetwork and PodNetworkInstance are those of
// package api/multitenancy/v1alpha1, and so are their CustomResourceDefinitions, with
// another group name (package helm).
//
// It holds types and no logic.
//
// +kubebuilder:object:generate=true
// +groupName=acn.azure.com
package v1alpha1
