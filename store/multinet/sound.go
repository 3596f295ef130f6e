// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/store/sound"
)

// Check implements descriptor.Checked. Pods have such networks in their own namespace only.
// The claim is in the namespace of the pod, and its owner may have written it.
func (c *Claim) Check() error {
	ofNamespace := c.Network.Kind == KindDanmNet || c.Network.Kind == KindTenantNetwork
	if ofNamespace && c.Network.Namespace != c.Namespace {
		return fmt.Errorf("its network is a %s of another namespace: %s", c.Network.Kind, sound.Short(c.Network.Namespace))
	}
	return nil
}

// Check implements descriptor.Checked. The number stands for a network in the place of a
// VNI, so a number that is a VNI would be that of a VPC.
func (c *DomainClaim) Check() error {
	if c.Number <= sound.MaxVNI {
		return fmt.Errorf("number %d is not above %d: it could be the VNI of a VPC", c.Number, sound.MaxVNI)
	}
	return nil
}

// maxVLAN is the largest VLAN ID (IEEE 802.1Q).
const maxVLAN = 4094

// Check implements descriptor.Checked.
func (l *HostLink) Check() error {
	if l.VNI == 0 || l.Type == VLAN && l.VNI > maxVLAN {
		return fmt.Errorf("number %d is none of a %s", l.VNI, sound.Short(l.Type))
	}
	if l.Type != VLAN && l.Type != VXLAN {
		return fmt.Errorf("type %q is neither %s nor %s", sound.Short(l.Type), VLAN, VXLAN)
	}
	if l.Device == "" || l.MTU < 0 {
		return errors.New("it has no device, or an MTU below 0")
	}
	return sound.VNI("VNI", l.VNI)
}
