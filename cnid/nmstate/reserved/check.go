// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reserved

import (
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// ErrReserved refuses a document that would make an interface look like one of Alioth. Its
// owner would not see it any more, and Alioth would remove it.
var ErrReserved = errors.New("it is reserved for interfaces of Alioth")

// Check returns why a desired state must not be applied, all reasons at once with the paths
// of the fields: it gives names or marks of Alioth's interfaces to others.
func Check(desired *document.State) error {
	var errs []error
	for n, i := range desired.Interfaces {
		if i.State == document.Ignore || i.State == document.Absent {
			continue
		}
		if hostdev.Managed(i.Name) {
			errs = append(errs, fmt.Errorf("interfaces[%d].name: %s: %w; choose another name", n, i.Name, ErrReserved))
		}
		for at, a := range i.AltNames {
			if a.State != document.Absent && multinet.ReservedDevice(a.Name) {
				errs = append(
					errs,
					fmt.Errorf("interfaces[%d].alt-names[%d].name: %s: %w; choose another name", n, at, a.Name, ErrReserved),
				)
			}
		}
		if marked(i) {
			errs = append(
				errs,
				fmt.Errorf("interfaces[%d].description: %s: %w; choose another text", n, *i.Description, ErrReserved),
			)
		}
	}
	return errors.Join(errs...)
}

// marked reports whether the description is the mark of a link of a network.
func marked(i document.Interface) bool {
	if i.Description == nil {
		return false
	}
	_, marked := links.Marked(*i.Description)
	return marked
}
