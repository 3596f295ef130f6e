// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AttachmentPod is the pod of an attachment, in the namespace of the claim.
type AttachmentPod struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// UID of the pod, without dots: the claim's name depends on it.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
}

// AttachmentClaimSpec is one interface of one pod in one network outside of every VPC.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an AttachmentClaim can't change: it is replaced"
type AttachmentClaimSpec struct {
	Pod AttachmentPod `json:"pod"`
	// Node on which the pod runs.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Node string `json:"node"`
	// Interface is the name of the interface in the pod, for example net1.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_.-]*$`
	// +kubebuilder:validation:MaxLength=15
	Interface string `json:"interface"`
	// Driver is the kind of the attachment, for example macvlan.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[\pL\pM\pN\pP\pS]+$`
	Driver string `json:"driver"`
	// Network to which the interface leads.
	Network NetworkReference `json:"network"`
	// ConfigHash is the SHA-256 of the attachment's element in the annotation
	// alioth.dev/attachments, in hex.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash"`
	// Addresses of the interface, with prefix lengths. They are for people; the Address
	// objects are the claims of the IPs.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f:./]+$`
	// +listType=atomic
	// +optional
	Addresses []string `json:"addresses,omitempty"`
}

// AttachmentClaimStatus is what the node of the pod reports.
type AttachmentClaimStatus struct {
	// Released is true when the pod has no interface on the node and gets none any more. A
	// node reports it for claims that are being deleted.
	// +optional
	Released bool `json:"released,omitempty"`
}

// AttachmentClaim permits one interface of a pod in a network outside of every VPC. Only
// the operator writes it. A node attaches nothing without it, because tenants may write
// the annotations of their pods. It reserves nothing. A finalizer keeps it, and so its
// network, until the node has released the pod's interfaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=attachmentclaims,singular=attachmentclaim,shortName=ac
// +kubebuilder:selectablefield:JSONPath=`.spec.node`
// +kubebuilder:selectablefield:JSONPath=`.spec.network.kind`
// +kubebuilder:selectablefield:JSONPath=`.spec.network.namespace`
// +kubebuilder:selectablefield:JSONPath=`.spec.network.name`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.spec.pod.name`
// +kubebuilder:printcolumn:name="Interface",type=string,JSONPath=`.spec.interface`
// +kubebuilder:printcolumn:name="Network kind",type=string,JSONPath=`.spec.network.kind`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network.name`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node`
// +kubebuilder:printcolumn:name="Addresses",type=string,JSONPath=`.spec.addresses`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec.interface.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') ? self.metadata.name == self.spec.pod.uid + '.' + self.spec.interface : self.metadata.name.startsWith(self.spec.pod.uid + '.0.') && self.metadata.name.size() == self.spec.pod.uid.size() + 3 + 2 * self.spec.interface.size() && [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14].all(i, i >= self.spec.interface.size() || self.metadata.name.substring(self.spec.pod.uid.size() + 3 + 2 * i, self.spec.pod.uid.size() + 5 + 2 * i) == '2d2e303132333435363738394142434445464748494a4b4c4d4e4f505152535455565758595a5f6162636465666768696a6b6c6d6e6f707172737475767778797a'.substring(2 * '-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'.indexOf(self.spec.interface.charAt(i)), 2 * '-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'.indexOf(self.spec.interface.charAt(i)) + 2))",message="metadata.name must be <spec.pod.uid>.<spec.interface>, or <spec.pod.uid>.0.<spec.interface in hex> if the interface is no DNS label"
type AttachmentClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AttachmentClaimSpec `json:"spec"`
	// +optional
	Status AttachmentClaimStatus `json:"status,omitempty,omitzero"`
}

// AttachmentClaimList is a list of AttachmentClaims.
// +kubebuilder:object:root=true
type AttachmentClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AttachmentClaim `json:"items"`
}

// AttachmentClaimName returns the name of the AttachmentClaim of a pod's interface:
// "<podUID>.<interface>" if the interface is a DNS label (RFC 1123), else
// "<podUID>.0.<interface in hex>". A label has no dot, so no two interfaces share a name.
func AttachmentClaimName(podUID, iface string) string {
	return podUID + "." + labelOrHex(iface)
}

func init() {
	register(&AttachmentClaim{}, &AttachmentClaimList{})
}
