// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/told"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/reflector"
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

// without makes a removal that can't fail out of one that reports nothing.
func without[O client.Object](remove func(store.Tx, O)) func(store.Tx, O) error {
	return func(tx store.Tx, object O) error {
		remove(tx, object)
		return nil
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

// kinds lists what the operator watches. Namespaces come first, since the
// tenant of what is in them follows from them.
func kinds() []kind {
	return []kind{
		kindOf(&corev1.Namespace{}, namespaces()),
		kindOf(&corev1.Node{}, nodes()),
		kindOf(&v1alpha1.VNIClaim{}, vniClaims()),
		kindOf(&v1alpha1.RollCall{}, rollCalls()),
		kindOf(&v1alpha1.SharedService{}, sharedServices()),
		kindOf(&v1alpha1.VPC{}, vpcs()),
		kindOf(&v1alpha1.Subnet{}, subnets()),
		kindOf(&v1alpha1.Address{}, addresses()),
		kindOf(&arktosv1.Network{}, networks()),
		kindOf(&corev1.Service{}, services()),
		kindOf(&corev1.Pod{}, pods()),
	}
}

func namespaces() table[*corev1.Namespace, store.Namespace] {
	return table[*corev1.Namespace, store.Namespace]{
		convert: reflector.Namespace,
		get:     func(tx store.ReadTx, o *corev1.Namespace) *store.Namespace { return store.GetNamespace(tx, o.Name) },
		put:     store.PutNamespace,
		remove:  without(func(tx store.Tx, o *corev1.Namespace) { store.DeleteNamespace(tx, o.Name, string(o.UID)) }),
	}
}

func nodes() table[*corev1.Node, store.Node] {
	return table[*corev1.Node, store.Node]{
		convert: reflector.Node,
		get:     func(tx store.ReadTx, o *corev1.Node) *store.Node { return store.GetNode(tx, o.Name) },
		put:     store.PutNode,
		remove:  without(func(tx store.Tx, o *corev1.Node) { store.DeleteNode(tx, o.Name, string(o.UID)) }),
	}
}

func vniClaims() table[*v1alpha1.VNIClaim, store.VNIClaim] {
	return table[*v1alpha1.VNIClaim, store.VNIClaim]{
		convert: reflector.VNIClaim,
		get: func(tx store.ReadTx, o *v1alpha1.VNIClaim) *store.VNIClaim {
			return store.GetVNIClaim(tx, uint32(o.Spec.VNI))
		},
		put: store.PutVNIClaim,
		remove: without(func(tx store.Tx, o *v1alpha1.VNIClaim) {
			store.DeleteVNIClaim(tx, uint32(o.Spec.VNI), string(o.UID))
		}),
	}
}

func rollCalls() table[*v1alpha1.RollCall, store.RollCall] {
	return table[*v1alpha1.RollCall, store.RollCall]{
		convert: reflector.RollCall,
		get:     func(tx store.ReadTx, o *v1alpha1.RollCall) *store.RollCall { return store.GetRollCall(tx, o.Name) },
		put:     store.PutRollCall,
		remove:  without(func(tx store.Tx, o *v1alpha1.RollCall) { store.DeleteRollCall(tx, o.Name, string(o.UID)) }),
	}
}

func sharedServices() table[*v1alpha1.SharedService, store.SharedService] {
	return table[*v1alpha1.SharedService, store.SharedService]{
		convert: reflector.SharedService,
		get: func(tx store.ReadTx, o *v1alpha1.SharedService) *store.SharedService {
			return store.GetSharedService(tx, o.Name)
		},
		put:    store.PutSharedService,
		remove: without(func(tx store.Tx, o *v1alpha1.SharedService) { store.DeleteSharedService(tx, o.Name, string(o.UID)) }),
	}
}

func vpcs() table[*v1alpha1.VPC, store.VPC] {
	return table[*v1alpha1.VPC, store.VPC]{
		convert: reflector.VPC,
		get:     func(tx store.ReadTx, o *v1alpha1.VPC) *store.VPC { return store.GetVPC(tx, o.Name) },
		put:     store.PutVPC,
		remove:  without(func(tx store.Tx, o *v1alpha1.VPC) { store.DeleteVPC(tx, o.Name, string(o.UID)) }),
	}
}

func subnets() table[*v1alpha1.Subnet, store.Subnet] {
	return table[*v1alpha1.Subnet, store.Subnet]{
		convert: reflector.Subnet,
		get:     func(tx store.ReadTx, o *v1alpha1.Subnet) *store.Subnet { return store.GetSubnet(tx, o.Name) },
		put:     store.PutSubnet,
		remove:  without(func(tx store.Tx, o *v1alpha1.Subnet) { store.DeleteSubnet(tx, o.Name, string(o.UID)) }),
	}
}

func addresses() table[*v1alpha1.Address, store.Address] {
	return table[*v1alpha1.Address, store.Address]{
		convert: reflector.Address,
		get:     func(tx store.ReadTx, o *v1alpha1.Address) *store.Address { return store.GetAddress(tx, o.Name) },
		put:     store.PutAddress,
		remove:  removeAddress,
	}
}

// removeAddress keeps the row for a living pod that was told the address.
func removeAddress(tx store.Tx, o *v1alpha1.Address) error {
	if !store.DeleteAddress(tx, o.Name, string(o.UID)) {
		return nil
	}
	if pod := store.GetPod(tx, o.Spec.Holder.UID); pod != nil {
		return told.Hold(tx, pod)
	}
	return nil
}

func putPod(tx store.Tx, pod *store.Pod) error {
	if err := store.PutPod(tx, pod); err != nil {
		return err
	}
	return told.Hold(tx, pod)
}

func networks() table[*arktosv1.Network, store.Network] {
	return table[*arktosv1.Network, store.Network]{
		convert: reflector.Network,
		get: func(tx store.ReadTx, o *arktosv1.Network) *store.Network {
			return store.GetNetwork(tx, o.Namespace, o.Name)
		},
		put: store.PutNetwork,
		remove: without(func(tx store.Tx, o *arktosv1.Network) {
			store.DeleteNetwork(tx, o.Namespace, o.Name, string(o.UID))
		}),
	}
}

func services() table[*corev1.Service, store.Service] {
	return table[*corev1.Service, store.Service]{
		convert: reflector.Service,
		get: func(tx store.ReadTx, o *corev1.Service) *store.Service {
			return store.GetService(tx, o.Namespace, o.Name)
		},
		put:    store.PutService,
		remove: without(func(tx store.Tx, o *corev1.Service) { store.DeleteService(tx, o.Namespace, o.Name, string(o.UID)) }),
	}
}

func pods() table[*corev1.Pod, store.Pod] {
	return table[*corev1.Pod, store.Pod]{
		convert: reflector.Pod,
		get:     func(tx store.ReadTx, o *corev1.Pod) *store.Pod { return store.GetPod(tx, string(o.UID)) },
		put:     putPod,
		remove:  without(func(tx store.Tx, o *corev1.Pod) { store.DeletePod(tx, string(o.UID)) }),
	}
}
