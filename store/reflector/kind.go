// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// objectID names one life of one object: a successor of the same name has
// another UID.
type objectID struct{ namespace, name, uid string }

func idOf(obj client.Object) objectID {
	return objectID{obj.GetNamespace(), obj.GetName(), string(obj.GetUID())}
}

// write writes one row.
type write func(tx store.Tx) error

// kind is what a Set needs to know of one kind of object.
type kind struct {
	name string
	list func() client.ObjectList
	// convert returns what writes the object's row, or nil for an object that
	// has none.
	convert func(obj client.Object) (write, error)
	remove  func(tx store.Tx, id objectID)
}

// define makes a kind out of a typed conversion, its put and its delete.
func define[T client.Object, R any](
	name string,
	list func() client.ObjectList,
	convert func(T) (*R, error),
	put func(store.Tx, *R) error,
	remove func(store.Tx, objectID),
) kind {
	return kind{
		name: name,
		list: list,
		convert: func(obj client.Object) (write, error) {
			row, err := convert(obj.(T))
			if row == nil || err != nil {
				return nil, err
			}
			return func(tx store.Tx) error { return put(tx, row) }, nil
		},
		remove: remove,
	}
}

// kindOf returns the kind of an object by its Go type.
func kindOf(obj client.Object) (kind, error) {
	switch obj.(type) {
	case *v1alpha1.VPC:
		return define("VPC", listOf[v1alpha1.VPCList], VPC, store.PutVPC,
			func(tx store.Tx, id objectID) { store.DeleteVPC(tx, id.name, id.uid) }), nil
	case *v1alpha1.Subnet:
		return define("Subnet", listOf[v1alpha1.SubnetList], Subnet, store.PutSubnet,
			func(tx store.Tx, id objectID) { store.DeleteSubnet(tx, id.name, id.uid) }), nil
	case *v1alpha1.Address:
		return define("Address", listOf[v1alpha1.AddressList], Address, store.PutAddress,
			func(tx store.Tx, id objectID) { store.DeleteAddress(tx, id.name, id.uid) }), nil
	case *v1alpha1.VNIClaim:
		return define("VNIClaim", listOf[v1alpha1.VNIClaimList], VNIClaim, store.PutVNIClaim, removeVNIClaim), nil
	case *v1alpha1.RollCall:
		return define("RollCall", listOf[v1alpha1.RollCallList], RollCall, store.PutRollCall,
			func(tx store.Tx, id objectID) { store.DeleteRollCall(tx, id.name, id.uid) }), nil
	case *v1alpha1.SharedService:
		return define("SharedService", listOf[v1alpha1.SharedServiceList], SharedService, store.PutSharedService,
			func(tx store.Tx, id objectID) { store.DeleteSharedService(tx, id.name, id.uid) }), nil
	case *v1alpha1.ExternalPool:
		return define("ExternalPool", listOf[v1alpha1.ExternalPoolList], ExternalPool, store.PutExternalPool,
			func(tx store.Tx, id objectID) { store.DeleteExternalPool(tx, id.name, id.uid) }), nil
	case *v1alpha1.ExternalAddress:
		return define("ExternalAddress", listOf[v1alpha1.ExternalAddressList], ExternalAddress, store.PutExternalAddress, removeExternalAddress), nil
	case *arktosv1.Network:
		return define("Network", listOf[arktosv1.NetworkList], Network, store.PutNetwork,
			func(tx store.Tx, id objectID) { store.DeleteNetwork(tx, id.namespace, id.name, id.uid) }), nil
	}
	return coreKindOf(obj)
}

func coreKindOf(obj client.Object) (kind, error) {
	switch obj.(type) {
	case *corev1.Namespace:
		return define("Namespace", listOf[corev1.NamespaceList], Namespace, store.PutNamespace,
			func(tx store.Tx, id objectID) { store.DeleteNamespace(tx, id.name, id.uid) }), nil
	case *corev1.Node:
		return define("Node", listOf[corev1.NodeList], Node, store.PutNode,
			func(tx store.Tx, id objectID) { store.DeleteNode(tx, id.name, id.uid) }), nil
	case *corev1.Pod:
		return define("Pod", listOf[corev1.PodList], Pod, store.PutPod,
			func(tx store.Tx, id objectID) { store.DeletePod(tx, id.uid) }), nil
	case *corev1.Service:
		return define("Service", listOf[corev1.ServiceList], Service, store.PutService,
			func(tx store.Tx, id objectID) { store.DeleteService(tx, id.namespace, id.name, id.uid) }), nil
	case *networkingv1.ServiceCIDR:
		return define("ServiceCIDR", listOf[networkingv1.ServiceCIDRList], ServiceCIDR, store.PutServiceCIDR,
			func(tx store.Tx, id objectID) { store.DeleteServiceCIDR(tx, id.name, id.uid) }), nil
	case *discoveryv1.EndpointSlice:
		return define("EndpointSlice", listOf[discoveryv1.EndpointSliceList], EndpointSlice, store.PutEndpointSlice,
			func(tx store.Tx, id objectID) { store.DeleteEndpointSlice(tx, id.namespace, id.name, id.uid) }), nil
	}
	return kind{}, fmt.Errorf("no row for objects of type %T", obj)
}

// listOf returns a new, empty list of the type L.
func listOf[L any, P interface {
	*L
	client.ObjectList
}]() client.ObjectList {
	return P(new(L))
}

// removeVNIClaim takes the VNI from the object's name, to which validation
// ties it.
func removeVNIClaim(tx store.Tx, id objectID) {
	vni, err := strconv.ParseUint(strings.TrimPrefix(id.name, "vni-"), 10, 32)
	if err == nil {
		store.DeleteVNIClaim(tx, uint32(vni), id.uid)
	}
}

// removeExternalAddress takes the IP from the object's name, to which validation
// ties it.
func removeExternalAddress(tx store.Tx, id objectID) {
	ip, err := netip.ParseAddr(strings.ReplaceAll(id.name, "-", ":"))
	if err == nil {
		store.DeleteExternalAddress(tx, ip, id.uid)
	}
}

// AddToScheme registers every kind that has rows.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, v1alpha1.AddToScheme, arktosv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}
