// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Defaults that the operator and the node daemon must agree on.
const (
	// DefaultVPCName is the name of the default VPC, which the chart creates.
	DefaultVPCName = "default"
	// ShadowCIDR4 and ShadowCIDR6 are the ranges of the shadow addresses:
	// addresses of pod interfaces that mean something on their node only. No
	// VPC may use them.
	ShadowCIDR4 = "169.254.64.0/18"
	ShadowCIDR6 = "fd41:6c69:6f74:6801::/64"
	// NodeAttachment is the interface that holds a node's own addresses in the
	// default VPC.
	NodeAttachment = "alioth_node"
	// PodAttachment is the interface of a pod's first attachment.
	PodAttachment = "eth0"
)
