// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the objects of the node IPAM API in the group acn.azure.com, as the
// early design of Azure CNS Swift V2 defines them: PodNetwork, PodNetworkInstance,
// MultiTenantPodNetworkConfig and NodeInfo. PodNetwork and PodNetworkInstance have the types of
// package api/multitenancy/v1alpha1. Their CustomResourceDefinitions differ only in the group
// name (package helm).
//
// It holds types and no logic.
//
// +kubebuilder:object:generate=true
// +groupName=acn.azure.com
package v1alpha1
