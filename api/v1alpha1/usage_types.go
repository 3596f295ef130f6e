// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UsageKind is the kind of an object that has a Usage.
// +kubebuilder:validation:Enum=Subnet;VPC
type UsageKind string

const (
	// UsageOfSubnet is the kind of a Subnet's Usage.
	UsageOfSubnet UsageKind = "Subnet"
	// UsageOfVPC is the kind of a VPC's Usage.
	UsageOfVPC UsageKind = "VPC"
)

// UsageSpec names the object whose addresses are counted.
type UsageSpec struct {
	// Kind is Subnet or VPC.
	Kind UsageKind `json:"kind"`
	// Name of the Subnet or VPC.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// UsageStatus has the figures. They are written in batches and may lag behind by some
// seconds.
type UsageStatus struct {
	// Used is the number of assigned addresses, all families together.
	// +optional
	Used int64 `json:"used"`
	// Free is the number of addresses of a Subnet that can still be assigned, of the
	// family with the fewest; at most 2^53.
	// +optional
	Free *int64 `json:"free,omitempty"`
	// FreeText is Free for people: >1e15 in place of a larger number.
	// +optional
	FreeText string `json:"freeText,omitempty"`
	// Subnets is the number of Subnets that name a VPC.
	// +optional
	Subnets *int32 `json:"subnets,omitempty"`
	// Cursors are the last addresses that Alioth chose in a Subnet, one per family: the
	// search for a free one continues behind them.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=39
	// +listType=atomic
	// +optional
	Cursors []string `json:"cursors,omitempty"`
}

// Usage has the figures of one Subnet or VPC, which is its owner. They change with every
// address, so they are apart from the objects that nodes watch. Only the operator writes
// it; one that was deleted or changed is written again.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=usages,singular=usage
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind`
// +kubebuilder:printcolumn:name="Of",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="Subnets",type=integer,JSONPath=`.status.subnets`
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Free",type=string,JSONPath=`.status.freeText`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Usage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   UsageSpec   `json:"spec"`
	Status UsageStatus `json:"status,omitempty"`
}

// UsageList is a list of Usages.
// +kubebuilder:object:root=true
type UsageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Usage `json:"items"`
}

// UsageName returns the name of the Usage of a Subnet or VPC: <kind>.<name>, in lower case,
// or <kind>.<SHA-256 of the name> for a name that would be too long for Kubernetes.
func UsageName(kind UsageKind, name string) string {
	const longest = 253
	prefix := strings.ToLower(string(kind)) + "."
	if len(prefix)+len(name) <= longest {
		return prefix + name
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + hex.EncodeToString(sum[:])
}

func init() {
	register(&Usage{}, &UsageList{})
}
