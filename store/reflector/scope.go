// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// Scope is a part of the API that a Source follows.
type Scope struct {
	// Object tells the kind by its Go type; nothing in it is read.
	Object client.Object
	// Namespace to stay in; "" for all, and for cluster-scoped kinds.
	Namespace string
	// Fields and Labels narrow the scope down; nil selects everything. A field
	// must be selectable in the API and must not change in an object's life.
	Fields fields.Selector
	Labels labels.Selector
}

// PodsOnNode is the scope of the pods bound to a node.
func PodsOnNode(node string) Scope {
	return Scope{Object: &corev1.Pod{}, Fields: fields.OneTermEqualSelector("spec.nodeName", node)}
}

// AddressesOnNode is the scope of the Addresses in use on a node.
func AddressesOnNode(node string) Scope {
	return Scope{Object: &v1alpha1.Address{}, Fields: fields.OneTermEqualSelector("spec.node", node)}
}

// AddressesOfVPC is the scope of all Addresses of a VPC.
func AddressesOfVPC(vpc string) Scope {
	return Scope{Object: &v1alpha1.Address{}, Fields: fields.OneTermEqualSelector("spec.vpc", vpc)}
}

// SubnetsOfVPC is the scope of all Subnets of a VPC.
func SubnetsOfVPC(vpc string) Scope {
	return Scope{Object: &v1alpha1.Subnet{}, Fields: fields.OneTermEqualSelector("spec.vpc", vpc)}
}

// VPCNamed is the scope of one VPC.
func VPCNamed(name string) Scope {
	return Scope{Object: &v1alpha1.VPC{}, Fields: fields.OneTermEqualSelector("metadata.name", name)}
}

// RollCallNamed is the scope of one RollCall.
func RollCallNamed(name string) Scope {
	return Scope{Object: &v1alpha1.RollCall{}, Fields: fields.OneTermEqualSelector("metadata.name", name)}
}

// Nodes is the scope of all Nodes.
func Nodes() Scope {
	return Scope{Object: &corev1.Node{}}
}

// SharedServices is the scope of all SharedServices.
func SharedServices() Scope {
	return Scope{Object: &v1alpha1.SharedService{}}
}

// ServiceNamed is the scope of one Service.
func ServiceNamed(namespace, name string) Scope {
	return Scope{
		Object: &corev1.Service{}, Namespace: namespace,
		Fields: fields.OneTermEqualSelector("metadata.name", name),
	}
}

// EndpointSlicesOf is the scope of the EndpointSlices of one Service.
func EndpointSlicesOf(namespace, service string) Scope {
	return Scope{
		Object: &discoveryv1.EndpointSlice{}, Namespace: namespace,
		Labels: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}),
	}
}
