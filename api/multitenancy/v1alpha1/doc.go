// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the objects of the node IPAM API in the group
// multitenancy.acn.azure.com: PodNetwork, PodNetworkInstance, MultitenantPodNetworkConfig and
// NodeInfo. Kinds, resources and fields have the names that Azure CNS gives them (repository
// Azure/azure-container-networking, folder crd/multitenancy), so its manifests apply. The
// comment of each field of Alioth's own says so. Package api/acn/v1alpha1 has the same kinds in
// the group of the early design.
//
// It holds types and validation markers, and no logic.
//
// +kubebuilder:object:generate=true
// +groupName=multitenancy.acn.azure.com
package v1alpha1
