// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netif

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/quote"
)

// Check returns an error for a text that no operator writes, and no message may repeat. It accepts
// nil.
func (c *VPCConfig) Check() error {
	if c == nil {
		return nil
	}
	return short(c.AltName, c.Definition)
}

// Check returns an error for a text that no operator writes, and no message may repeat.
func (a *Interface) Check() error {
	list := []string{a.Name, a.AltName, a.Kind, a.Network, a.Definition, a.VPC, a.Outside, a.OutsideUID, a.Subnet, a.MAC}
	if l := a.Link; l != nil {
		list = append(list, l.Parent, l.Mode, l.Pool, string(l.IPv6))
		if l.VF != nil {
			list = append(list, l.VF.SpoofCheck, l.VF.Trust, l.VF.LinkState, l.VF.Proto)
		}
	}
	if d := a.Delegate; d != nil {
		list = append(list, d.IP, d.MAC)
		if f := d.File; f != nil {
			list = slices.Concat(list, []string{f.NetworkID, f.Name, f.Type}, f.Plugins, f.IPAM)
		}
	}
	return short(list...)
}

// short returns an error for a text that is too long, or that can't be printed.
func short(texts ...string) error {
	for _, text := range texts {
		if !quote.IsShort(text) {
			return fmt.Errorf(
				"a text of %d bytes is longer than %d bytes or can't be printed: %s",
				len(text),
				quote.MaxQuoted,
				quote.Text(text),
			)
		}
	}
	return nil
}
