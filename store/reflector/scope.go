// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/kube"
)

// Scope is a part of the API that a Source follows.
type Scope struct {
	// Object tells the kind by its Go type; nothing in it is read.
	Object kube.Object
	// Namespace to stay in; "" for all, and for cluster-scoped kinds.
	Namespace string
	// Fields and Labels narrow the scope down; nil selects everything. A field
	// must be selectable in the API and must not change in an object's life.
	Fields fields.Selector
	Labels labels.Selector
}

// parameters are those of a request for the scope.
func (s Scope) parameters() map[string]string {
	parameters := map[string]string{}
	if s.Fields != nil {
		parameters["fieldSelector"] = s.Fields.String()
	}
	if s.Labels != nil {
		parameters["labelSelector"] = s.Labels.String()
	}
	return parameters
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

// VPCs is the scope of all VPCs.
func VPCs() Scope {
	return Scope{Object: &v1alpha1.VPC{}}
}

// Subnets is the scope of all Subnets.
func Subnets() Scope {
	return Scope{Object: &v1alpha1.Subnet{}}
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

// ExternalPools is the scope of all ExternalPools.
func ExternalPools() Scope {
	return Scope{Object: &v1alpha1.ExternalPool{}}
}

// ExternalAddresses is the scope of all ExternalAddresses.
func ExternalAddresses() Scope {
	return Scope{Object: &v1alpha1.ExternalAddress{}}
}

// HostAccesses is the scope of all HostAccess objects.
func HostAccesses() Scope {
	return Scope{Object: &v1alpha1.HostAccess{}}
}

// Namespaces is the scope of all Namespaces.
func Namespaces() Scope {
	return Scope{Object: &corev1.Namespace{}}
}

// Networks is the scope of all Networks.
func Networks() Scope {
	return Scope{Object: &arktosv1.Network{}}
}

// ServiceCIDRs is the scope of all ServiceCIDRs.
func ServiceCIDRs() Scope {
	return Scope{Object: &networkingv1.ServiceCIDR{}}
}

// Services is the scope of all Services.
func Services() Scope {
	return Scope{Object: &corev1.Service{}}
}

// ServedEndpointSlices is the scope of the EndpointSlices of all Services that are
// not headless: those have a virtual address.
func ServedEndpointSlices() Scope {
	headless, err := labels.NewRequirement(corev1.IsHeadlessService, selection.DoesNotExist, nil)
	if err != nil {
		panic(err) // the label's name is a constant
	}
	return Scope{Object: &discoveryv1.EndpointSlice{}, Labels: labels.NewSelector().Add(*headless)}
}
