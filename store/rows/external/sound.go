// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/sound"
)

// Check implements descriptor.Checked.
func (p *Pool) Check() error {
	return cmp.Or(store.CheckRanges(p.Ranges...), sound.Texts(p.AllowedTenants...))
}

// Check implements descriptor.Checked.
func (a *Address) Check() error {
	return cmp.Or(sound.Hosts("IP", a.IP), sound.Names(a.Pool, a.Node), a.Holder.Check())
}

// Check implements descriptor.Checked.
func (a *HostAccess) Check() error {
	for _, r := range a.Ports {
		if r.First == 0 || r.Last < r.First || !slices.Contains([]string{"", "TCP", "UDP", "SCTP"}, r.Protocol) {
			return fmt.Errorf("%d-%d/%s is no range of ports", r.First, r.Last, quote.Name(r.Protocol))
		}
	}
	return sound.Texts(a.AllowedTenants...)
}
