// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"cmp"

	"github.com/alioth-net/alioth/store/sound"
)

// Check implements descriptor.Checked.
func (n *NodeInfo) Check() error { return sound.Texts(n.VMUniqueID) }

// Check implements descriptor.Checked.
func (c *PodConfig) Check() error {
	return cmp.Or(sound.Names(c.PodNetwork, c.Instance), sound.Texts(c.Status))
}

// Check implements descriptor.Checked.
func (i *Instance) Check() error {
	for _, part := range i.Reserved {
		if err := sound.Names(part.PodNetwork, part.VPC); err != nil {
			return err
		}
	}
	return nil
}
