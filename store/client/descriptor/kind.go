// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
)

// ID names one life of one object: a successor of the same name has another UID.
type ID struct{ Namespace, Name, UID string }

// IDOf returns the ID of an object.
func IDOf(object metav1.Object) ID {
	return ID{object.GetNamespace(), object.GetName(), string(object.GetUID())}
}

// Kind describes one kind of API object to everything that treats all kinds alike:
// the operator's feed, events and metrics, a node's sources, and what aliothctl
// verify collects.
type Kind struct {
	// Name is the name of the kind in the API.
	Name string
	// Object and List are empty. They must not be changed.
	Object kube.Object
	List   kube.List
	// Rows converts the objects, and keeps the rows.
	Rows
	// Conditions reads the verdicts about objects; nil for a kind without conditions.
	Conditions Conditions
	// Optional is true where the API may lack the kind: a cluster need not have its area.
	Optional bool
	// OwnEvents is true where a controller writes events of its own about the
	// conditions.
	OwnEvents bool

	// OnNode returns the scope that a node always follows; nil for nothing. Of has the scopes
	// that it follows of VPCs and others as it needs them.
	OnNode func(node string) Scope
	Of     Scopes
}

// Rows converts objects of a kind to rows, and keeps them in a store. The methods take objects and
// rows of this kind only, unless something else is said.
type Rows interface {
	// Row converts an object; the row is an untyped nil for an object that has none. It
	// returns an error where a text can't be read or the row contradicts itself (see Kind.Check).
	Row(object kube.Object) (row any, err error)
	// Trim removes the parts of an object of this kind that Row and the controllers do not read,
	// before a cache keeps it. It ignores objects of other kinds.
	Trim(object kube.Object)
	// Has reports whether a row is of this kind.
	Has(row any) bool
	// Get returns the row of an object, or an untyped nil.
	Get(tx store.ReadTx, id ID) (row any)
	// Put inserts or replaces a row.
	Put(tx store.Tx, row any) error
	// Delete removes the row of an object if it has the UID.
	Delete(tx store.Tx, id ID) error
}

// Conditions reads the conditions of a kind from its rows.
type Conditions interface {
	// Verdict returns the verdict in the conditions of a row, and the zero value without a row.
	Verdict(row any) Verdict
	// Verdicts yields the verdicts of all rows.
	Verdicts(tx store.ReadTx) iter.Seq[Verdict]
}

// Extent is the part of the API that a node follows on behalf of something that it needs.
type Extent int

// Extents. The argument of their scopes is the name of the VPC unless something else is
// said.
const (
	// CarriedVPC is the extent for a VPC whose packets the node carries, beside its tables.
	CarriedVPC Extent = iota
	// ServedVPC is the extent for Services of a VPC, on a node with pods of the VPC.
	ServedVPC
	// DescribedVPC is the extent for an interface of another CNI plugin.
	DescribedVPC
	// ExposedVPC is the extent for a Service that clients outside reach on every node.
	ExposedVPC
	// RoleMembers are the members of the VPC's roles.
	RoleMembers
	// AllSubnets and OneSubnet are the Subnets of a VPC and the one of a name.
	AllSubnets
	OneSubnet
	// AllAddresses are the Addresses of a VPC, and AddressesOfSubnet the Addresses of a subnet,
	// by the name of the Subnet object.
	AllAddresses
	AddressesOfSubnet
	// AddressesOfNodes are the addresses that nodes hold for themselves. Without an argument: all
	// are in the default VPC.
	AddressesOfNodes
	// UsedNamespace is the extent for the namespace of pods on the node, by its name.
	UsedNamespace
	// ServedNetwork is the extent for Services in a network outside of every VPC, by its UID.
	ServedNetwork
)

// Scopes has the scopes of a kind that a node follows, by extent and by name.
type Scopes map[Extent]func(name string) Scope

// NewObject returns an empty object of the kind.
func (k *Kind) NewObject() kube.Object { return k.Object.DeepCopyObject().(kube.Object) }

// NewList returns an empty list of objects of the kind.
func (k *Kind) NewList() kube.List { return k.List.DeepCopyObject().(kube.List) }

// Verdict is the content of an object's conditions.
type Verdict struct {
	ID
	Ready           bool
	Reason, Message string
	// NameConflict is the message of the condition NameConflict, "" without one.
	NameConflict string
	// NotIsolated is the message of the condition Isolated while that is False; else, and of
	// kinds whose events do not tell of it, "".
	NotIsolated string
}

// Check returns an error for a row that contradicts itself.
func (k *Kind) Check(row any) error { return check(k.Name, row) }

// Scope is a part of the objects of a kind.
type Scope struct {
	Kind *Kind
	// Fields and Labels narrow the scope down; nil selects everything. A field
	// must be selectable in the API and must not change in an object's life.
	Fields fields.Selector
	Labels labels.Selector
	// Unawaited is true where nothing waits until the scope has been read.
	Unawaited bool
}

// Of is the kind of objects O with rows R.
type Of[O kube.Object, R any] struct {
	*Kind
	description Description[O, R]
}

// Convert is Row with types and without the check. It returns nil for an object that has
// no row.
func (o Of[O, R]) Convert(object O) (*R, error) { return o.description.Convert(object) }

// Read converts an object and checks its row, as Row does.
func (o Of[O, R]) Read(object O) (*R, error) {
	row, err := o.Convert(object)
	if err != nil || row == nil {
		return nil, err
	}
	if err := o.Check(row); err != nil {
		return nil, err
	}
	return row, nil
}

// New returns an empty object of the kind.
func (o Of[O, R]) New() O { return o.NewObject().(O) }
