// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/sound"
)

// Check implements descriptor.Checked.
func (p *Pool) Check() error { return store.CheckRanges(p.Ranges...) }

// Check implements descriptor.Checked.
func (a *Address) Check() error { return sound.Hosts("IP", a.IP) }

// Check implements descriptor.Checked.
func (a *HostAccess) Check() error {
	for _, r := range a.Ports {
		if r.First == 0 || r.Last < r.First || !slices.Contains([]string{"", "TCP", "UDP", "SCTP"}, r.Protocol) {
			return fmt.Errorf("%d-%d/%s is no range of ports", r.First, r.Last, sound.Short(r.Protocol))
		}
	}
	return nil
}
