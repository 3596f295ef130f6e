// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/told"
)

// kind connects one kind of API object with its table.
type kind struct {
	object client.Object
	put    func(tx store.Tx, object client.Object) (Change, error)
	remove func(tx store.Tx, object client.Object) (Change, error)
}

// table is what kindOf needs to know of a table of rows R for objects O.
type table[O client.Object, R any] struct {
	convert func(O) (*R, error)
	get     func(tx store.ReadTx, object O) *R
	put     func(tx store.Tx, row *R) error
	remove  func(tx store.Tx, object O) error
}

func kindOf[O client.Object, R any](object O, t table[O, R]) kind {
	return kind{
		object: object,
		put: func(tx store.Tx, untyped client.Object) (Change, error) {
			typed, ok := untyped.(O)
			if !ok {
				return Change{}, fmt.Errorf("unexpected %T", untyped)
			}
			row, err := t.convert(typed)
			if err != nil {
				return Change{}, err
			}
			before := t.get(tx, typed)
			if row == nil { // not Alioth's business, perhaps no longer
				return changeOf[R](before, nil), t.remove(tx, typed)
			}
			if err := t.put(tx, row); err != nil {
				return Change{}, err
			}
			return changeOf(before, t.get(tx, typed)), nil
		},
		remove: func(tx store.Tx, untyped client.Object) (Change, error) {
			typed, ok := untyped.(O)
			if !ok {
				return Change{}, fmt.Errorf("unexpected %T", untyped)
			}
			before := t.get(tx, typed)
			if err := t.remove(tx, typed); err != nil {
				return Change{}, err
			}
			return changeOf(before, t.get(tx, typed)), nil
		},
	}
}

// changeOf makes a Change of two rows, without typed nil pointers.
func changeOf[R any](before, after *R) Change {
	var change Change
	if before != nil {
		change.Old = before
	}
	if after != nil {
		change.New = after
	}
	return change
}

// watched lists what the operator watches. Namespaces come first, since the
// tenant of what is in them follows from them.
func watched() []kind {
	addresses := byName(kinds.Address, store.GetAddress, store.PutAddress, store.DeleteAddress)
	addresses.remove = removeAddress
	return []kind{
		kindOf(&corev1.Namespace{}, byName(kinds.Namespace, store.GetNamespace, store.PutNamespace, store.DeleteNamespace)),
		kindOf(&corev1.Node{}, byName(kinds.Node, store.GetNode, store.PutNode, store.DeleteNode)),
		kindOf(&networkingv1.ServiceCIDR{}, byName(kinds.ServiceCIDR, store.GetServiceCIDR, store.PutServiceCIDR, store.DeleteServiceCIDR)),
		kindOf(&v1alpha1.VNIClaim{}, vniClaims()),
		kindOf(&v1alpha1.RollCall{}, byName(kinds.RollCall, store.GetRollCall, store.PutRollCall, store.DeleteRollCall)),
		kindOf(&v1alpha1.SharedService{}, byName(kinds.SharedService, store.GetSharedService, store.PutSharedService, store.DeleteSharedService)),
		kindOf(&v1alpha1.VPC{}, byName(kinds.VPC, store.GetVPC, store.PutVPC, store.DeleteVPC)),
		kindOf(&v1alpha1.Subnet{}, byName(kinds.Subnet, store.GetSubnet, store.PutSubnet, store.DeleteSubnet)),
		kindOf(&v1alpha1.Address{}, addresses),
		kindOf(&v1alpha1.ExternalPool{}, byName(kinds.ExternalPool, store.GetExternalPool, store.PutExternalPool, store.DeleteExternalPool)),
		kindOf(&v1alpha1.ExternalAddress{}, externalAddresses()),
		kindOf(&v1alpha1.HostAccess{}, byName(kinds.HostAccess, store.GetHostAccess, store.PutHostAccess, store.DeleteHostAccess)),
		kindOf(&arktosv1.Network{}, inNamespace(kinds.Network, store.GetNetwork, store.PutNetwork, store.DeleteNetwork)),
		kindOf(&corev1.Service{}, inNamespace(kinds.Service, store.GetService, store.PutService, store.DeleteService)),
		kindOf(&discoveryv1.EndpointSlice{}, inNamespace(kinds.EndpointSlice, store.GetEndpointSlice, store.PutEndpointSlice, store.DeleteEndpointSlice)),
		kindOf(&corev1.Pod{}, pods()),
	}
}

// byName is a table whose rows are found by the object's name.
func byName[O client.Object, R any](
	convert func(O) (*R, error), get func(store.ReadTx, string) *R, put func(store.Tx, *R) error, remove func(tx store.Tx, name, uid string) bool,
) table[O, R] {
	return table[O, R]{
		convert: convert, put: put,
		get: func(tx store.ReadTx, object O) *R { return get(tx, object.GetName()) },
		remove: func(tx store.Tx, object O) error {
			remove(tx, object.GetName(), string(object.GetUID()))
			return nil
		},
	}
}

// inNamespace is a table whose rows are found by namespace and name.
func inNamespace[O client.Object, R any](
	convert func(O) (*R, error), get func(tx store.ReadTx, namespace, name string) *R, put func(store.Tx, *R) error,
	remove func(tx store.Tx, namespace, name, uid string) bool,
) table[O, R] {
	return table[O, R]{
		convert: convert, put: put,
		get: func(tx store.ReadTx, object O) *R { return get(tx, object.GetNamespace(), object.GetName()) },
		remove: func(tx store.Tx, object O) error {
			remove(tx, object.GetNamespace(), object.GetName(), string(object.GetUID()))
			return nil
		},
	}
}

func vniClaims() table[*v1alpha1.VNIClaim, store.VNIClaim] {
	return table[*v1alpha1.VNIClaim, store.VNIClaim]{
		convert: kinds.VNIClaim, put: store.PutVNIClaim,
		get: func(tx store.ReadTx, o *v1alpha1.VNIClaim) *store.VNIClaim {
			return store.GetVNIClaim(tx, uint32(o.Spec.VNI))
		},
		remove: func(tx store.Tx, o *v1alpha1.VNIClaim) error {
			store.DeleteVNIClaim(tx, uint32(o.Spec.VNI), string(o.UID))
			return nil
		},
	}
}

func externalAddresses() table[*v1alpha1.ExternalAddress, store.ExternalAddress] {
	return table[*v1alpha1.ExternalAddress, store.ExternalAddress]{
		convert: kinds.ExternalAddress, put: store.PutExternalAddress,
		get: func(tx store.ReadTx, o *v1alpha1.ExternalAddress) *store.ExternalAddress {
			ip, _ := netip.ParseAddr(o.Spec.IP) // what can't be read has no row
			return store.GetExternalAddress(tx, ip)
		},
		remove: func(tx store.Tx, o *v1alpha1.ExternalAddress) error {
			if ip, err := netip.ParseAddr(o.Spec.IP); err == nil {
				store.DeleteExternalAddress(tx, ip, string(o.UID))
			}
			return nil
		},
	}
}

// removeAddress keeps the row for a living pod that was told the address.
func removeAddress(tx store.Tx, o *v1alpha1.Address) error {
	_, err := told.Remove(tx, o.Name, string(o.UID))
	return err
}

func pods() table[*corev1.Pod, store.Pod] {
	return table[*corev1.Pod, store.Pod]{
		convert: kinds.Pod, put: told.Put,
		get: func(tx store.ReadTx, o *corev1.Pod) *store.Pod { return store.GetPod(tx, string(o.UID)) },
		remove: func(tx store.Tx, o *corev1.Pod) error {
			store.DeletePod(tx, string(o.UID))
			return nil
		},
	}
}
