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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kube"
)

// objectID names one life of one object: a successor of the same name has
// another UID.
type objectID struct{ namespace, name, uid string }

func idOf(obj metav1.Object) objectID {
	return objectID{obj.GetNamespace(), obj.GetName(), string(obj.GetUID())}
}

// write writes one row.
type write func(tx store.Tx) error

// entry is an object as the API has it.
type entry struct {
	id      objectID
	version string
	// put writes its row; nil for an object that has none, or can't be read.
	put write
	// initialEnd marks a bookmark after which come changes only.
	initialEnd bool
}

// kind is what a Set needs to know of one kind of object.
type kind struct {
	name string
	// read reads an object in the API's JSON. Of one that can't be read the entry
	// says which it is, as far as possible.
	read   func(raw []byte) (entry, error)
	remove func(tx store.Tx, id objectID)
}

// object is an API object with the Go type *O.
type object[O any] interface {
	*O
	kube.Object
}

// define makes a kind out of a typed conversion, its put and its delete.
func define[O, R any, P object[O]](
	name string,
	convert func(P) (*R, error),
	put func(store.Tx, *R) error,
	remove func(store.Tx, objectID),
) kind {
	read := func(raw []byte) (entry, error) {
		obj := P(new(O))
		if err := kube.Decode(raw, obj); err != nil {
			known, _ := identify(raw) // nothing, at worst
			return known, err
		}
		e := entry{id: idOf(obj), version: obj.GetResourceVersion()}
		row, err := convert(obj)
		if row != nil && err == nil {
			e.put = func(tx store.Tx) error { return put(tx, row) }
		}
		return e, err
	}
	return kind{name: name, read: read, remove: remove}
}

// kindOf returns the kind of an object by its Go type.
func kindOf(obj kube.Object) (kind, error) {
	switch obj.(type) {
	case *v1alpha1.VPC:
		return define("VPC", kinds.VPC, store.PutVPC,
			func(tx store.Tx, id objectID) { store.DeleteVPC(tx, id.name, id.uid) }), nil
	case *v1alpha1.Subnet:
		return define("Subnet", kinds.Subnet, store.PutSubnet,
			func(tx store.Tx, id objectID) { store.DeleteSubnet(tx, id.name, id.uid) }), nil
	case *v1alpha1.Address:
		return define("Address", kinds.Address, store.PutAddress,
			func(tx store.Tx, id objectID) { store.DeleteAddress(tx, id.name, id.uid) }), nil
	case *v1alpha1.VNIClaim:
		return define("VNIClaim", kinds.VNIClaim, store.PutVNIClaim, removeVNIClaim), nil
	case *v1alpha1.RollCall:
		return define("RollCall", kinds.RollCall, store.PutRollCall,
			func(tx store.Tx, id objectID) { store.DeleteRollCall(tx, id.name, id.uid) }), nil
	case *v1alpha1.SharedService:
		return define("SharedService", kinds.SharedService, store.PutSharedService,
			func(tx store.Tx, id objectID) { store.DeleteSharedService(tx, id.name, id.uid) }), nil
	case *v1alpha1.ExternalPool:
		return define("ExternalPool", kinds.ExternalPool, store.PutExternalPool,
			func(tx store.Tx, id objectID) { store.DeleteExternalPool(tx, id.name, id.uid) }), nil
	case *v1alpha1.ExternalAddress:
		return define("ExternalAddress", kinds.ExternalAddress, store.PutExternalAddress, removeExternalAddress), nil
	case *v1alpha1.HostAccess:
		return define("HostAccess", kinds.HostAccess, store.PutHostAccess,
			func(tx store.Tx, id objectID) { store.DeleteHostAccess(tx, id.name, id.uid) }), nil
	case *arktosv1.Network:
		return define("Network", kinds.Network, store.PutNetwork,
			func(tx store.Tx, id objectID) { store.DeleteNetwork(tx, id.namespace, id.name, id.uid) }), nil
	}
	return coreKindOf(obj)
}

func coreKindOf(obj kube.Object) (kind, error) {
	switch obj.(type) {
	case *corev1.Namespace:
		return define("Namespace", kinds.Namespace, store.PutNamespace,
			func(tx store.Tx, id objectID) { store.DeleteNamespace(tx, id.name, id.uid) }), nil
	case *corev1.Node:
		return define("Node", kinds.Node, store.PutNode,
			func(tx store.Tx, id objectID) { store.DeleteNode(tx, id.name, id.uid) }), nil
	case *corev1.Pod:
		return podKind(), nil
	case *corev1.Service:
		return define("Service", kinds.Service, store.PutService,
			func(tx store.Tx, id objectID) { store.DeleteService(tx, id.namespace, id.name, id.uid) }), nil
	case *networkingv1.ServiceCIDR:
		return define("ServiceCIDR", kinds.ServiceCIDR, store.PutServiceCIDR,
			func(tx store.Tx, id objectID) { store.DeleteServiceCIDR(tx, id.name, id.uid) }), nil
	case *discoveryv1.EndpointSlice:
		return define("EndpointSlice", kinds.EndpointSlice, store.PutEndpointSlice,
			func(tx store.Tx, id objectID) { store.DeleteEndpointSlice(tx, id.namespace, id.name, id.uid) }), nil
	}
	return kind{}, fmt.Errorf("no row for objects of type %T", obj)
}

// podKind has a row of one of two types for a pod; which one never changes in its
// life.
func podKind() kind {
	pod := define("Pod", kinds.Pod, store.PutPod,
		func(tx store.Tx, id objectID) { store.DeletePod(tx, id.uid) })
	host := define("Pod", kinds.HostPod, store.PutHostPod, func(store.Tx, objectID) {})
	return kind{
		name: pod.name,
		read: func(raw []byte) (entry, error) {
			if e, err := pod.read(raw); e.put != nil || err != nil {
				return e, err
			}
			return host.read(raw)
		},
		remove: func(tx store.Tx, id objectID) {
			store.DeleteHostPod(tx, id.uid)
			pod.remove(tx, id)
		},
	}
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
