// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/sound"
)

// Check implements descriptor.Checked. The number stands for a network in the place of a VNI. A
// number in the range of VNIs would mean a VPC.
func (c *DomainClaim) Check() error {
	if c.Number <= sound.MaxVNI {
		return fmt.Errorf("number %d is not above %d: it could be the VNI of a VPC", c.Number, sound.MaxVNI)
	}
	return c.Network.Check()
}

// Check implements descriptor.Checked. Pods have some networks in their own namespace only.
// The claim is in the namespace of the pod, and its owner may have written it.
func (c *Claim) Check() error {
	ofNamespace := c.Network.Kind == KindDanmNet || c.Network.Kind == KindTenantNetwork
	if ofNamespace && c.Network.Namespace != c.Namespace {
		return fmt.Errorf("its network is a %s of another namespace: %s", c.Network.Kind, quote.Name(c.Network.Namespace))
	}
	return cmp.Or(
		sound.Names(c.PodName, c.Node),
		sound.Texts(c.PodUID, c.Interface, c.Driver, c.ConfigHash),
		sound.Texts(c.Addresses...),
		sound.Texts(c.Interfaces...),
		c.Network.Check(),
	)
}

// Check implements descriptor.Checked.
func (g *Grant) Check() error {
	return cmp.Or(
		sound.Texts(g.Namespaces...),
		sound.Texts(g.Networks...),
		sound.Texts(g.Plugins...),
		sound.Texts(g.IPAM...),
		sound.Texts(g.Requests...),
		sound.Texts(g.Settings...),
		sound.Texts(g.FromNamespaces...),
	)
}

// Check implements descriptor.Checked.
func (c *HostVNIClaim) Check() error {
	return cmp.Or(
		sound.Names(c.Network.Namespace, c.Network.Name),
		sound.Texts(c.Type, c.Device, c.NetworkUID, c.Network.Group, c.Network.Kind),
	)
}

// Check implements descriptor.Checked.
func (r *LinkReport) Check() error {
	for _, f := range r.Failures {
		if err := sound.Texts(f.Device, f.Type, f.Reason); err != nil {
			return err
		}
	}
	if err := sound.Texts(r.Configurations...); err != nil {
		return err
	}
	for _, at := range r.Addresses {
		what := "address at " + quote.Name(at.Device)
		err := cmp.Or(
			sound.Texts(at.Device),
			sound.Hosts(what, at.Addrs...),
			sound.OnePerFamily(what, at.Addrs),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// maxVLAN is the largest VLAN ID (IEEE 802.1Q).
const maxVLAN = 4094

// Check implements descriptor.Checked.
func (l *HostLink) Check() error {
	if l.Type == DeviceOnly && l.VNI == 0 {
		return l.checkDevice()
	}
	if l.VNI == 0 || l.Type == VLAN && l.VNI > maxVLAN {
		return fmt.Errorf("number %d is none of a %s", l.VNI, quote.Name(l.Type))
	}
	if l.Type != VLAN && l.Type != VXLAN {
		return fmt.Errorf("type %s is neither %s nor %s", quote.Text(l.Type), VLAN, VXLAN)
	}
	return cmp.Or(l.checkDevice(), sound.VNI("VNI", l.VNI))
}

func (l *HostLink) checkDevice() error {
	if l.Device == "" || l.MTU < 0 {
		return errors.New("it has no device, or an MTU below 0")
	}
	return sound.Texts(l.Device, l.NetworkID)
}
