// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels of the node IPAM API. Anybody may set them on pods, so they are only requests.
const (
	// NodeLabel is on nodes whose pods have their addresses by the node IPAM API; its value
	// does not matter.
	NodeLabel = "kubernetes.azure.com/podnetwork-multi-tenancy-enabled"
	// PodNetworkLabel and PodNetworkInstanceLabel on a pod name the PodNetwork, or the
	// PodNetworkInstance of the pod's namespace, that the pod asks for.
	PodNetworkLabel         = "kubernetes.azure.com/pod-network"
	PodNetworkInstanceLabel = "kubernetes.azure.com/pod-network-instance"
)
