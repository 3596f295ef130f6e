// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// dropAltNames removes alternative names, before another interface gets one of them.
func (p *planner) dropAltNames() {
	p.each(func(now, want *document.Interface) {
		absent := slices.DeleteFunc(
			lacking(now.AltNames, want.AltNames),
			func(a document.AltName) bool { return a.State != document.Absent },
		)
		if len(absent) > 0 {
			changed := document.Interface{Name: now.Name, Type: now.Type, AltNames: absent}
			p.step(Change{changed})
			p.changed(now, changed)
		}
	})
}

// lacking returns the alternative names that an interface shall have and has not, and the absent
// ones that it has. Others stay, whoever set them.
func lacking(is, shall []document.AltName) (list []document.AltName) {
	for _, a := range shall {
		has := slices.Contains(is, document.AltName{Name: a.Name})
		if has == (a.State == document.Absent) {
			list = append(list, a)
		}
	}
	return list
}
