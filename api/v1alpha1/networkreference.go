// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/hex"
	"regexp"
)

// NetworkReference names one network outside of every VPC. A network that is made again
// has another UID, so nothing that refers to the first one refers to it.
type NetworkReference struct {
	// Group is the API group of the network; not set if only its UID is known.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	// +optional
	Group string `json:"group,omitempty"`
	// Kind is DanmNet, TenantNetwork, ClusterNetwork or NetworkAttachmentDefinition.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Kind string `json:"kind"`
	// Namespace of the network; not set if its kind has none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// UID of the network, without dots: names of objects depend on it.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
}

// NetworkDomain returns the domain of a network outside of every VPC, by its UID. The
// name of a VPC has no dot, so it is never the domain of a network.
func NetworkDomain(uid string) string { return uid + ".net" }

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// labelOrHex returns a text as the last part of an object's name: itself if it is a DNS
// label (RFC 1123), else "0." and its bytes in hexadecimal. A label has no dot, so no two
// texts give one name.
func labelOrHex(text string) string {
	if dnsLabel.MatchString(text) {
		return text
	}
	return "0." + hex.EncodeToString([]byte(text))
}
