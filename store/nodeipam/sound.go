// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import "github.com/alioth-net/alioth/store/sound"

// Check implements descriptor.Checked.
func (n *NodeInfo) Check() error { return sound.Texts(n.VMUniqueID) }

// Check implements descriptor.Checked.
func (c *PodConfig) Check() error { return sound.Texts(c.PodNetwork, c.Instance, c.Status) }

// Check implements descriptor.Checked.
func (i *Instance) Check() error {
	for _, part := range i.Reserved {
		if err := sound.Texts(part.PodNetwork, part.VPC); err != nil {
			return err
		}
	}
	return nil
}
