// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"cmp"

	"github.com/alioth-net/alioth/store/sound"
)

// Check implements descriptor.Checked.
func (m *Member) Check() error {
	return cmp.Or(sound.Names(m.VPC, m.Subnet, m.Node), sound.Texts(m.VPCUID, m.SubnetUID, m.NodeUID, m.Stage))
}

// Check implements descriptor.Checked.
func (n *NodeRoles) Check() error {
	for uid := range n.Listed {
		if err := sound.Texts(uid); err != nil {
			return err
		}
	}
	return nil
}
