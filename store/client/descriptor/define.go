// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
)

// Description has all properties of the kind of objects O with rows R. All fields but
// Name, Object, List, Convert and Table are optional.
type Description[O kube.Object, R any] struct {
	Name string
	// Object and List are empty.
	Object  O
	List    kube.List
	Convert func(O) (*R, error)
	Table   Table[R]
	// Verdict reads the conditions of a row, Rows yields all rows.
	Verdict func(*R) Verdict
	Rows    func(store.ReadTx) iter.Seq[*R]
	// Owns reports whether a row is of this kind, where several kinds share a table; nil
	// for a table of this kind alone.
	Owns func(*R) bool
	// Trim is Rows.Trim.
	Trim func(O)
	// Optional is Kind.Optional.
	Optional bool
	// OwnEvents is Kind.OwnEvents.
	OwnEvents bool
	// OnNode and Of select the part that a node follows, see Kind.
	OnNode func(name string) Scope
	Of     Scopes
}

// Table finds and keeps rows R by their objects.
type Table[R any] struct {
	Get    func(tx store.ReadTx, id ID) *R
	Put    func(tx store.Tx, row *R) error
	Remove func(tx store.Tx, id ID)
}

// ByName returns a table whose rows are found by the object's name.
func ByName[R any](
	get func(tx store.ReadTx, name string) *R,
	put func(store.Tx, *R) error,
	remove func(tx store.Tx, name, uid string) bool,
) Table[R] {
	return Table[R]{
		Get:    func(tx store.ReadTx, id ID) *R { return get(tx, id.Name) },
		Put:    put,
		Remove: func(tx store.Tx, id ID) { remove(tx, id.Name, id.UID) },
	}
}

// InNamespace returns a table whose rows are found by namespace and name.
func InNamespace[R any](
	get func(tx store.ReadTx, namespace, name string) *R,
	put func(store.Tx, *R) error,
	remove func(tx store.Tx, namespace, name, uid string) bool,
) Table[R] {
	return Table[R]{
		Get:    func(tx store.ReadTx, id ID) *R { return get(tx, id.Namespace, id.Name) },
		Put:    put,
		Remove: func(tx store.Tx, id ID) { remove(tx, id.Namespace, id.Name, id.UID) },
	}
}

// ByUID returns a table whose rows are found by the object's UID.
func ByUID[R any](
	get func(tx store.ReadTx, uid string) *R,
	put func(store.Tx, *R) error,
	remove func(tx store.Tx, uid string) bool,
) Table[R] {
	return Table[R]{
		Get:    func(tx store.ReadTx, id ID) *R { return get(tx, id.UID) },
		Put:    put,
		Remove: func(tx store.Tx, id ID) { remove(tx, id.UID) },
	}
}

// ByNumber returns a table whose rows are found by the number behind the prefix of the object's
// name. Validation ties the number to the name. No row has the number 0.
func ByNumber[R any](
	prefix string,
	get func(store.ReadTx, uint32) *R,
	put func(store.Tx, *R) error,
	remove func(store.Tx, uint32, string) bool,
) Table[R] {
	number := func(id ID) uint32 {
		number, _ := strconv.ParseUint(strings.TrimPrefix(id.Name, prefix), 10, 32)
		return uint32(number)
	}
	return Table[R]{
		Get:    func(tx store.ReadTx, id ID) *R { return get(tx, number(id)) },
		Put:    put,
		Remove: func(tx store.Tx, id ID) { remove(tx, number(id), id.UID) },
	}
}

// Set has the kinds of an area: each is added where it is defined.
type Set []*Kind

// Define makes a kind out of its description and adds it to a set.
func Define[O kube.Object, R any](set *Set, d Description[O, R]) Of[O, R] {
	kind := Untyped(d)
	*set = append(*set, kind)
	return Of[O, R]{kind, d}
}

// Untyped makes a kind out of typed functions.
func Untyped[O kube.Object, R any](d Description[O, R]) *Kind {
	kind := &Kind{
		Name: d.Name, Object: d.Object, List: d.List, OwnEvents: d.OwnEvents, Optional: d.Optional, Rows: rows[O, R]{d},
	}
	if d.Verdict != nil {
		kind.Conditions = conditions[O, R]{d}
	}
	kind.OnNode, kind.Of = scoped(kind, d.OnNode), Scopes{}
	for extent, narrow := range d.Of {
		kind.Of[extent] = scoped(kind, narrow)
	}
	return kind
}

// rows implements Rows for a description.
type rows[O kube.Object, R any] struct{ of Description[O, R] }

// Row implements Rows.
func (r rows[O, R]) Row(object kube.Object) (any, error) {
	typed, ok := object.(O)
	if !ok {
		return nil, fmt.Errorf("convert %s: unexpected object %T", r.of.Name, object)
	}
	typedRow, err := r.of.Convert(typed)
	if err != nil {
		return nil, err
	}
	row := orNil(typedRow)
	if row == nil {
		return nil, nil
	}
	if err := check(r.of.Name, row); err != nil {
		return nil, err
	}
	return row, nil
}

// Trim implements Rows.
func (r rows[O, R]) Trim(object kube.Object) {
	if typed, ok := object.(O); ok && r.of.Trim != nil {
		r.of.Trim(typed)
	}
}

// Has implements Rows.
func (r rows[O, R]) Has(row any) bool {
	typed, ok := row.(*R)
	return ok && (r.of.Owns == nil || r.of.Owns(typed))
}

// Get implements Rows.
func (r rows[O, R]) Get(tx store.ReadTx, id ID) any { return orNil(r.of.Table.Get(tx, id)) }

// Put implements Rows.
func (r rows[O, R]) Put(tx store.Tx, row any) error {
	typed, ok := row.(*R)
	if !ok {
		return fmt.Errorf("put %s: unexpected row %T", r.of.Name, row)
	}
	return r.of.Table.Put(tx, typed)
}

// Delete implements Rows.
func (r rows[O, R]) Delete(tx store.Tx, id ID) error {
	r.of.Table.Remove(tx, id)
	return nil
}

// conditions implements Conditions for a description.
type conditions[O kube.Object, R any] struct{ of Description[O, R] }

// Verdict implements Conditions.
func (c conditions[O, R]) Verdict(row any) Verdict {
	if typed, ok := row.(*R); ok {
		return c.of.Verdict(typed)
	}
	return Verdict{}
}

// Verdicts implements Conditions.
func (c conditions[O, R]) Verdicts(tx store.ReadTx) iter.Seq[Verdict] {
	return func(yield func(Verdict) bool) {
		for row := range c.of.Rows(tx) {
			if rows[O, R](c).Has(row) && !yield(c.of.Verdict(row)) {
				return
			}
		}
	}
}

// orNil makes of a nil pointer an untyped nil.
func orNil[R any](row *R) any {
	if row == nil {
		return nil
	}
	return row
}

// scoped returns narrow with the kind in its scopes.
func scoped(kind *Kind, narrow func(name string) Scope) func(name string) Scope {
	if narrow == nil {
		return nil
	}
	return func(name string) Scope {
		scope := narrow(name)
		if scope.Kind == nil {
			scope.Kind = kind
		}
		return scope
	}
}

// Everything narrows nothing down.
func Everything(string) Scope { return Scope{} }

// WithField selects objects by a field that has the name.
func WithField(field string) func(name string) Scope {
	return func(name string) Scope { return Scope{Fields: fields.OneTermEqualSelector(field, name)} }
}

// Listed yields the rows of a list.
func Listed[R any](list func(store.ReadTx) []*R) func(store.ReadTx) iter.Seq[*R] {
	return func(tx store.ReadTx) iter.Seq[*R] { return slices.Values(list(tx)) }
}
