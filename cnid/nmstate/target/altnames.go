// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"encoding/json"
	"fmt"
	"slices"

	kjson "sigs.k8s.io/json"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/quote"
)

// KernelNames returns a desired state with the names of interfaces in place of alternative ones
// of the current state. The paths in the two are the same.
func KernelNames(desired, current *document.State) (*document.State, error) {
	named, there := &document.State{}, false
	for _, i := range current.Interfaces {
		there = there || len(i.AltNames) > 0
		named.Interfaces = append(named.Interfaces, document.Interface{Name: i.Name, AltNames: i.AltNames})
	}
	if !there {
		return desired, nil
	}
	wanted, err := objectOf(desired)
	if err != nil {
		return nil, err
	}
	is, err := objectOf(named)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(document.KernelNames(wanted, is))
	if err != nil {
		return nil, fmt.Errorf("write a desired state: %w", quote.Error(err))
	}
	next := &document.State{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, next); err != nil {
		return nil, fmt.Errorf("read a desired state: %w", quote.Error(err))
	}
	for n, i := range desired.Interfaces {
		if i.MadeBy == document.MadeByAlioth {
			next.Interfaces[n].Name = i.Name // It is about the interface that was made by that name.
		}
	}
	return next, nil
}

func objectOf(s *document.State) (object map[string]any, err error) {
	text, err := json.Marshal(s)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(text, &object)
	}
	if err != nil {
		return nil, fmt.Errorf("write a state: %w", quote.Error(err))
	}
	return object, nil
}

// checkOwners refuses alternative names that two interfaces would have: names and alternative
// names are of one kind in the kernel.
func (r *resolution) checkOwners() {
	owners, all := map[string][]string{}, r.all()
	for _, name := range sorted(all) {
		for _, a := range all[name].AltNames {
			if a.State != document.Absent {
				owners[a.Name] = append(owners[a.Name], name)
			}
		}
	}
	for _, name := range r.order {
		for n, a := range r.desired[name].AltNames {
			path := fmt.Sprintf("%s.alt-names[%d].name", r.at(name), n)
			others := slices.DeleteFunc(slices.Clone(owners[a.Name]), func(owner string) bool { return owner == name })
			_, isName := all[a.Name]
			switch {
			case a.State == document.Absent || r.desired[name].State == document.Absent:
			case isName:
				r.Add(path, "%s: an interface has that name: choose another one", a.Name)
			case len(others) > 0:
				r.Add(path, "%s: it is an alternative name of %s: choose another one, or make it absent there", a.Name, others[0])
			}
		}
	}
}

// all are the interfaces that shall be, by name.
func (r *resolution) all() map[string]document.Interface {
	all := map[string]document.Interface{}
	for name := range r.current {
		if i, _ := r.get(name); !gone(i) {
			all[name] = i
		}
	}
	for name, i := range r.final {
		if !gone(*i) {
			all[name] = *i
		}
	}
	return all
}

// without returns alternative names as absent ones.
func without(list []document.AltName) (absent []document.AltName) {
	for _, a := range list {
		absent = append(absent, document.AltName{Name: a.Name, State: document.Absent})
	}
	return absent
}
