// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// name takes the interfaces that are not ignored, by their names.
func (r *resolution) name(interfaces []document.Interface) {
	if len(interfaces) > maxInterfaces {
		r.Add("interfaces", "%d of them: want at most %d", len(interfaces), maxInterfaces)
		return
	}
	for n, i := range interfaces {
		path := fmt.Sprintf("interfaces[%d]", n)
		r.Name(path+".name", i.Name)
		r.Word(path+".state", i.State, document.Up, document.Down, document.Inactive, document.Absent, document.Ignore)
		r.Word(path+".made-by", i.MadeBy, document.MadeByOthers, document.MadeByAlioth)
		other, twice := r.path[i.Name]
		if twice && i.State == document.Absent && r.desired[i.Name].State == document.Absent {
			continue // Its name and an alternative one say the same.
		}
		if twice {
			r.Add(path+".name", "%s: %s has that name too", i.Name, other)
			continue
		}
		r.path[i.Name] = path
		if i.State == document.Ignore {
			continue
		}
		if i.State == "" {
			i.State = document.Up
		}
		r.desired[i.Name] = i
		r.order = append(r.order, i.Name)
	}
}
