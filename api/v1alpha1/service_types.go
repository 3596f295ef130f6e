// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of ScaledEndpoints. The validation markers below repeat the first two.
const (
	// MaxScaledBackends is the maximum number of backends of one ScaledEndpoint. With names of
	// nodes and pods of usual length it then has some 30 KiB.
	MaxScaledBackends = 256
	// MaxScaledPorts is the maximum number of ports of a Service that are served.
	MaxScaledPorts = 1000
	// MaxScaledParts is the maximum number of ScaledEndpoints of a Service in one VPC or network.
	MaxScaledParts = 64
)

// APIServerService is the Service (namespace/name) of the API server. The operator judges it
// last, and notes in the head that all others have been judged.
const APIServerService = "default/kubernetes"

// ScaledVersion is the version of the contents of ScaledEndpoints. It grows when nodes come to
// need more of them: a node goes by verdicts of its own version or a later one.
const ScaledVersion = 1

// ScaledService is the Service of a ScaledEndpoint.
type ScaledService struct {
	// Namespace and Name of the Service.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// UID of the Service.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	UID string `json:"uid"`
}

// ScaledPort is a port of a Service.
type ScaledPort struct {
	// Protocol is TCP, UDP or SCTP.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol string `json:"protocol"`
	// Port is the number at the virtual addresses.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// NodePort is the number at the addresses of every node; none without one.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	NodePort int32 `json:"nodePort,omitempty"`
}

// ScaledHead has the facts about a Service that a node needs, without its backends.
type ScaledHead struct {
	// Created is the creation time of the Service: of two Services that want the same address,
	// the older one gets it.
	Created metav1.Time `json:"created"`
	// Tenant is the tenant of the Service's namespace.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Tenant string `json:"tenant,omitempty"`
	// ClusterIPs of the Service, none of a headless one.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=39
	// +listType=atomic
	// +optional
	ClusterIPs []string `json:"clusterIPs,omitempty"`
	// LoadBalancerIPs are the addresses that the Service holds in its VPC.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=39
	// +listType=atomic
	// +optional
	LoadBalancerIPs []string `json:"loadBalancerIPs,omitempty"`
	// ExternalIPs are the external IPs of the Service's spec that an ExternalPool grants to it.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=39
	// +listType=atomic
	// +optional
	ExternalIPs []string `json:"externalIPs,omitempty"`
	// ExternalLoadBalancer is true for a load balancer whose addresses are outside of every
	// VPC: nodes find them by the ExternalAddress objects.
	// +optional
	ExternalLoadBalancer bool `json:"externalLoadBalancer,omitempty"`
	// Ports of the Service.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	// +optional
	Ports []ScaledPort `json:"ports,omitempty"`
	// HealthCheckNodePort is the port where nodes report the number of their backends.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	HealthCheckNodePort int32 `json:"healthCheckNodePort,omitempty"`
	// AffinitySeconds is the time that a client stays with a backend; with 0 it does not stay.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	AffinitySeconds int32 `json:"affinitySeconds,omitempty"`
	// NodeLocal keeps connections from inside on the client's node. ExternalNodeLocal keeps
	// connections from outside on the node that receives them.
	// +optional
	NodeLocal bool `json:"nodeLocal,omitempty"`
	// +optional
	ExternalNodeLocal bool `json:"externalNodeLocal,omitempty"`
	// Restricted is true where only clients of SourceRanges may use the addresses of the
	// load balancer. If SourceRanges is empty, no client may.
	// +optional
	Restricted bool `json:"restricted,omitempty"`
	// SourceRanges are ranges in CIDR notation.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=43
	// +listType=atomic
	// +optional
	SourceRanges []string `json:"sourceRanges,omitempty"`
	// Shared is true for a Service that every VPC reaches.
	// +optional
	Shared bool `json:"shared,omitempty"`
	// LeftOut is true for a Service of the default VPC with endpoints that can't be backends.
	// If it has no backends either, another proxy may serve it to the nodes.
	// +optional
	LeftOut bool `json:"leftOut,omitempty"`
	// InVPC has the facts about the Service's VPC that nodes need to lead clients outside to the
	// Service. A Service without node ports and addresses outside has none, and neither has a
	// Service in a network outside of every VPC.
	// +optional
	InVPC *ScaledVPC `json:"inVPC,omitempty"`
	// AllJudged is the version of the operator that has judged all Services; 0: the operator
	// has not judged all of them, or has stopped to judge. Only the API server's Service has
	// it, and a node that starts waits for it.
	// +kubebuilder:validation:Minimum=0
	// +optional
	AllJudged int32 `json:"allJudged,omitempty"`
	// Usage is the Service's part of the quota of its VPC. It counts the endpoints that its
	// EndpointSlices name, 1,000 per port and virtual address at most.
	// +optional
	Usage ScaledUsage `json:"usage,omitempty"`
}

// ScaledVPC has the facts that a node needs about a VPC without pods on it.
type ScaledVPC struct {
	// VNI of the VPC.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`
	// CIDRs are the ranges of the VPC.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=43
	// +listType=atomic
	CIDRs []string `json:"cidrs"`
}

// ScaledUsage is a number of rows in a node's tables.
type ScaledUsage struct {
	// Rows has one row for each virtual address, and one for each port of it.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Rows int32 `json:"rows,omitempty"`
	// Backends is the number of backends of all ports of all virtual addresses.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Backends int32 `json:"backends,omitempty"`
}

// ScaledTarget is the port of the backends for a port of the Service.
type ScaledTarget struct {
	// Protocol and Port name the port of the Service.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol string `json:"protocol"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// Target is the number at the backends.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Target int32 `json:"target"`
}

// ScaledBackend is a target address of a Service.
type ScaledBackend struct {
	// IP is the address of the backend, of either family.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self) && (ip(self).isGlobalUnicast() || ip(self).isLinkLocalUnicast())",message="must be the address of one host"
	IP string `json:"ip"`
	// Node is the node of the Address object; of an address without one, the node of the
	// EndpointSlice.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	Node string `json:"node,omitempty"`
	// PodUID is the UID of the pod that holds the address; of an address without an Address
	// object, the UID that the EndpointSlice names.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	PodUID string `json:"podUID,omitempty"`
	// Terminating is true of a backend that is shutting down and still serves: it counts
	// where no other is left. A listed backend with it is not ready.
	// +optional
	Terminating bool `json:"terminating,omitempty"`
	// Outside is true of an address that does not belong to a pod of the VPC, and that the
	// egress of the VPC leads to.
	// +optional
	Outside bool `json:"outside,omitempty"`
	// OnHost is true of an address that may belong to a pod on the network of its node, in
	// the default VPC. That node itself checks it.
	// +optional
	OnHost bool `json:"onHost,omitempty"`
	// Listed is true of an address that counts for a Service which every VPC reaches, and
	// nowhere else.
	// +optional
	Listed bool `json:"listed,omitempty"`
	// ForNodes and ForZones are the nodes and zones whose clients should use the backend.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	ForNodes []string `json:"forNodes,omitempty"`
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	ForZones []string `json:"forZones,omitempty"`
}

// ScaledGroup has backends that serve at the same ports.
type ScaledGroup struct {
	// Targets are these ports.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	// +optional
	Targets []ScaledTarget `json:"targets,omitempty"`
	// Backends are ordered by address.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Backends []ScaledBackend `json:"backends"`
}

// ScaledEndpointSpec is a part of the operator's decision about a Service.
// +kubebuilder:validation:XValidation:rule="self.service == oldSelf.service && has(self.vpc) == has(oldSelf.vpc) && (!has(self.vpc) || self.vpc == oldSelf.vpc) && has(self.vpcUID) == has(oldSelf.vpcUID) && (!has(self.vpcUID) || self.vpcUID == oldSelf.vpcUID) && self.exposed == oldSelf.exposed && self.part == oldSelf.part",message="of a ScaledEndpoint only spec.head and spec.groups can change"
// +kubebuilder:validation:XValidation:rule="has(self.head) == (self.part == 0)",message="part 0 has spec.head, and no other part has it"
// +kubebuilder:validation:XValidation:rule="has(self.vpc) || self.exposed",message="without spec.vpc only exposed is of use"
type ScaledEndpointSpec struct {
	// Service that the backends belong to.
	Service ScaledService `json:"service"`
	// VPC is the name of the Service's VPC, or <UID of a network>.net for a network outside
	// of every VPC. A Service of no VPC has none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	VPC string `json:"vpc,omitempty"`
	// VPCUID is the UID of that VPC; none for a network.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	// +optional
	VPCUID string `json:"vpcUID,omitempty"`
	// Exposed is true of a Service that every node needs: it has node ports or addresses
	// outside, or every VPC reaches it.
	Exposed bool `json:"exposed"`
	// Part is 0 for the first part, which has the head, and ascends. Each backend is in one
	// part, except for moments while backends move between parts.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	Part int32 `json:"part"`
	// Head has the facts about the Service itself that nodes need.
	// +optional
	Head *ScaledHead `json:"head,omitempty"`
	// Groups have the backends of this part, 256 in all groups together.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	Groups []ScaledGroup `json:"groups,omitempty"`
}

// ScaledEndpoint is a part of a Service as nodes serve it. It has the backends that the
// operator found valid by Address objects (docs/design/140). Only the operator writes it. It
// is cluster-scoped, so that no right in a tenant's namespace reaches it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=scaledendpoints,singular=scaledendpoint
// +kubebuilder:selectablefield:JSONPath=`.spec.vpc`
// +kubebuilder:selectablefield:JSONPath=`.spec.exposed`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.service.namespace`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service.name`
// +kubebuilder:printcolumn:name="VPC",type=string,JSONPath=`.spec.vpc`
// +kubebuilder:printcolumn:name="Exposed",type=boolean,JSONPath=`.spec.exposed`
// +kubebuilder:printcolumn:name="Part",type=integer,JSONPath=`.spec.part`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.startsWith(self.spec.service.__namespace__ + '.') && self.metadata.name.matches('[.][0-9a-f]{16}[.][0-9]{1,2}$')",message="metadata.name must be <namespace>.<Service>.<hash>.<part>"
type ScaledEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ScaledEndpointSpec `json:"spec"`
}

// ScaledEndpointName returns the name of the ScaledEndpoint with this spec. It contains a
// hash of all fixed fields, so a new life of the Service or the VPC has other objects.
func ScaledEndpointName(spec *ScaledEndpointSpec) string {
	identity := strings.Join([]string{spec.Service.UID, spec.VPC, spec.VPCUID, fmt.Sprint(spec.Exposed)}, "\x00")
	sum := sha256.Sum256([]byte(identity))
	return strings.Join(
		[]string{spec.Service.Namespace, spec.Service.Name, hex.EncodeToString(sum[:8]), fmt.Sprint(spec.Part)},
		".",
	)
}

// ScaledEndpointList is a list of ScaledEndpoints.
// +kubebuilder:object:root=true
type ScaledEndpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScaledEndpoint `json:"items"`
}

// SharedServiceSpec names a Service.
type SharedServiceSpec struct {
	// Namespace of the Service.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// Name of the Service. It may be created after the SharedService.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// SharedServiceStatus is the observed state of the Service.
type SharedServiceStatus struct {
	// ClusterIPs are the Service's addresses. Pods of every VPC reach it there.
	// +listType=atomic
	// +optional
	ClusterIPs []string `json:"clusterIPs,omitempty"`
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SharedService makes a Service of the default VPC reachable from every VPC, at
// its ClusterIPs and by its usual name. The right to write it controls the Services that
// all tenants reach.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=sharedservices,singular=sharedservice
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.namespace`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="ClusterIPs",type=string,JSONPath=`.status.clusterIPs`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SharedService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SharedServiceSpec   `json:"spec"`
	Status SharedServiceStatus `json:"status,omitempty"`
}

// SharedServiceList is a list of SharedServices.
// +kubebuilder:object:root=true
type SharedServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SharedService `json:"items"`
}

func init() {
	register(&ScaledEndpoint{}, &ScaledEndpointList{})
	register(&SharedService{}, &SharedServiceList{})
}
