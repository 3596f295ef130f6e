// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kube"
)

// description has all properties of a kind. All fields but object, list, convert and
// table are optional.
type description[O kube.Object, R any] struct {
	name    string
	object  O
	list    kube.List
	convert func(O) (*R, error)
	table   table[R]
	// verdict reads the conditions of a row, list all rows.
	verdict   func(*R) Verdict
	rows      func(store.ReadTx) iter.Seq[*R]
	ownEvents bool
	// onNode and ofVPC narrow down what a node follows.
	onNode, ofVPC func(name string) Scope
}

// table finds and keeps rows R by their objects.
type table[R any] struct {
	get    func(tx store.ReadTx, id ID) *R
	put    func(tx store.Tx, row *R) error
	remove func(tx store.Tx, id ID)
}

// byName is a table whose rows are found by the object's name.
func byName[R any](
	get func(tx store.ReadTx, name string) *R, put func(store.Tx, *R) error, remove func(tx store.Tx, name, uid string) bool,
) table[R] {
	return table[R]{
		get:    func(tx store.ReadTx, id ID) *R { return get(tx, id.Name) },
		put:    put,
		remove: func(tx store.Tx, id ID) { remove(tx, id.Name, id.UID) },
	}
}

// inNamespace is a table whose rows are found by namespace and name.
func inNamespace[R any](
	get func(tx store.ReadTx, namespace, name string) *R, put func(store.Tx, *R) error, remove func(tx store.Tx, namespace, name, uid string) bool,
) table[R] {
	return table[R]{
		get:    func(tx store.ReadTx, id ID) *R { return get(tx, id.Namespace, id.Name) },
		put:    put,
		remove: func(tx store.Tx, id ID) { remove(tx, id.Namespace, id.Name, id.UID) },
	}
}

// byUID is a table whose rows are found by the object's UID.
func byUID[R any](get func(tx store.ReadTx, uid string) *R, put func(store.Tx, *R) error, remove func(tx store.Tx, uid string) bool) table[R] {
	return table[R]{
		get:    func(tx store.ReadTx, id ID) *R { return get(tx, id.UID) },
		put:    put,
		remove: func(tx store.Tx, id ID) { remove(tx, id.UID) },
	}
}

// define makes a kind and registers it.
func define[O kube.Object, R any](d description[O, R]) Of[O, R] {
	kind := untyped(d)
	all = append(all, kind)
	return Of[O, R]{Kind: kind, Convert: d.convert}
}

// untyped makes a kind out of typed functions.
func untyped[O kube.Object, R any](d description[O, R]) *Kind {
	kind := &Kind{
		Name: d.name, Object: d.object, List: d.list, OwnEvents: d.ownEvents,
		Row: d.row,
		Has: func(row any) bool { _, ok := row.(*R); return ok },
		Get: func(tx store.ReadTx, id ID) any { return orNil(d.table.get(tx, id)) },
		Put: putter(d.name, d.table.put),
		Delete: func(tx store.Tx, id ID) error {
			d.table.remove(tx, id)
			return nil
		},
	}
	d.addVerdicts(kind)
	kind.OnNode, kind.OfVPC = scoped(kind, d.onNode), scoped(kind, d.ofVPC)
	return kind
}

// putter makes Kind.Put.
func putter[R any](kind string, put func(store.Tx, *R) error) func(store.Tx, any) error {
	return func(tx store.Tx, row any) error {
		typed, ok := row.(*R)
		if !ok {
			return fmt.Errorf("put %s: unexpected row %T", kind, row)
		}
		return put(tx, typed)
	}
}

// row is Kind.Row.
func (d description[O, R]) row(object kube.Object) (any, error) {
	typed, ok := object.(O)
	if !ok {
		return nil, fmt.Errorf("convert %s: unexpected object %T", d.name, object)
	}
	row, err := d.convert(typed)
	if err != nil {
		return nil, err
	}
	return orNil(row), nil
}

func (d description[O, R]) addVerdicts(kind *Kind) {
	if d.verdict == nil {
		return
	}
	kind.Verdict = func(row any) Verdict {
		if typed, ok := row.(*R); ok {
			return d.verdict(typed)
		}
		return Verdict{}
	}
	kind.Verdicts = func(tx store.ReadTx) iter.Seq[Verdict] {
		return func(yield func(Verdict) bool) {
			for row := range d.rows(tx) {
				if !yield(d.verdict(row)) {
					return
				}
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

// scoped has the kind's name in the scopes that narrow makes.
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

// everything narrows nothing down.
func everything(string) Scope { return Scope{} }

// withField selects objects by a field that has the name.
func withField(field string) func(name string) Scope {
	return func(name string) Scope { return Scope{Fields: fields.OneTermEqualSelector(field, name)} }
}

// listed yields the rows of a list.
func listed[R any](list func(store.ReadTx) []*R) func(store.ReadTx) iter.Seq[*R] {
	return func(tx store.ReadTx) iter.Seq[*R] { return slices.Values(list(tx)) }
}
