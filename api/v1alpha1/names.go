// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"github.com/alioth-net/alioth/api/quote"
)

// Names that Alioth writes to, or reads from, objects of other API groups.
const (
	// TenantLabel on a Namespace names the tenant that owns it. A namespace
	// without it belongs to a tenant of its own, see TenantOfNamespace.
	TenantLabel = "alioth.dev/tenant"
	// NamespaceTenantPrefix starts the tenant name of a namespace without
	// TenantLabel. The colon can't occur in a label value, so no label can
	// spell such a tenant.
	NamespaceTenantPrefix = "ns:"
	// AnyTenant in a list of allowed tenants admits every tenant.
	AnyTenant = "*"
	// AnyUnlabelled in a list of allowed tenants admits every namespace without
	// TenantLabel.
	AnyUnlabelled = NamespaceTenantPrefix + AnyTenant

	// PodSecurityLabel on a Namespace names the level of Pod Security that the API server
	// enforces there.
	PodSecurityLabel = "pod-security.kubernetes.io/enforce"

	// AttachmentsAnnotation on a pod holds the JSON list of its attachments
	// (package annotations, type Attachment). Only the operator writes it.
	AttachmentsAnnotation = "alioth.dev/attachments"

	// Finalizer delays the deletion of a VPC, Subnet or Network while other objects
	// depend on it.
	Finalizer = "alioth.dev/in-use"

	// LoadBalancerClass is spec.loadBalancerClass of the Services that get addresses
	// from Alioth.
	LoadBalancerClass = "alioth.dev/vpc"
	// LoadBalancerAnnotation on a Service of that class is the place of its addresses:
	// LoadBalancerVPC, which is the default, or LoadBalancerExternal.
	LoadBalancerAnnotation = "alioth.dev/load-balancer"
	// LoadBalancerVPC requests addresses inside the Service's VPC, from a Subnet with
	// spec.use Services.
	LoadBalancerVPC = "VPC"
	// LoadBalancerExternal requests addresses on the nodes' network, from an
	// ExternalPool.
	LoadBalancerExternal = "External"
	// LoadBalancerIPsAnnotation on a Service requests addresses, separated by commas,
	// one per family; it has precedence over spec.loadBalancerIP.
	LoadBalancerIPsAnnotation = "alioth.dev/load-balancer-ips"
	// ExternalPoolAnnotation on a Service names the ExternalPool for its external
	// addresses. The default is any pool that allows the tenant.
	ExternalPoolAnnotation = "alioth.dev/external-pool"

	// EndpointsManager is the value of the label endpointslice.kubernetes.io/managed-by of
	// the EndpointSlices that the operator makes of the interfaces of pods, and of the label
	// EndpointsManagerLabel of the Endpoints.
	EndpointsManager = "operator.alioth.dev"
	// EndpointsManagerLabel on an Endpoints object names the program that wrote it.
	EndpointsManagerLabel = "endpoints.kubernetes.io/managed-by"
	// DomainLabel on an EndpointSlice names the domain of its addresses: the name of a VPC,
	// or <UID>.net of a network outside of every VPC. Such a slice gives backends in that
	// VPC only.
	DomainLabel = "alioth.dev/domain"

	// NetworkReadyCondition is the type of the pod condition that reports whether the pod
	// has its addresses, and if not, why not. The operator writes it.
	NetworkReadyCondition = "alioth.dev/NetworkReady"
)

// RestrictingLevels are the levels of Pod Security without pods that control their node.
func RestrictingLevels() []string { return []string{"baseline", "restricted"} }

// TenantOfNamespace returns the tenant that owns a namespace, given the
// namespace's name and labels.
func TenantOfNamespace(name string, labels map[string]string) string {
	if tenant := labels[TenantLabel]; tenant != "" {
		return tenant
	}
	return NamespaceTenantPrefix + name
}

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

// EventNoteLimit is the length of an event's note that the API accepts, in bytes.
const EventNoteLimit = 1024

// EventNote makes a text the note of an event: one line that the API accepts. No character
// is cut apart.
func EventNote(text string) string { return quote.Bounded(text, EventNoteLimit) }
