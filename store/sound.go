// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/sound"
)

// The methods Check return an error for a row that contradicts itself: no node can program
// it. Package descriptor calls them for each object before the store has its row.

// Check implements descriptor.Checked.
func (a *Address) Check() error {
	if (a.VPC == "") == (a.Network.UID == "") {
		return errors.New("it belongs to no VPC and no network, or to both")
	}
	return cmp.Or(
		sound.Hosts("IP", a.IP),
		sound.MAC(a.MAC),
		sound.Hosts("address of the set", a.Set...),
		sound.OnePerFamily("set", a.Set),
		sound.Names(
			a.VPC,
			a.Subnet,
			a.Node,
		),
		sound.Texts(a.Attachment),
		sound.Texts(a.Interfaces...),
		a.Config.Check(),
		a.Holder.Check(),
		a.Network.Check(),
	)
}

// Check returns an error for a holder with texts that no row has.
func (h Holder) Check() error {
	return cmp.Or(sound.Names(h.Namespace, h.Name), sound.Texts(string(h.Kind), h.UID))
}

// Check returns an error for a reference with texts that no row has.
func (n NetworkRef) Check() error {
	return cmp.Or(sound.Names(n.Namespace, n.Name), sound.Texts(n.Group, n.Kind, n.UID))
}

// Check implements descriptor.Checked. A range on a list that can't be read refuses the whole
// row: without its list the VPC would reach more.
func (v *VPC) Check() error {
	return cmp.Or(
		sound.VNI("VNI", v.VNI),
		sound.VNI("requested VNI", v.WantVNI),
		sound.OwnRanges("range", v.Prefixes...),
		sound.Ranges(
			"allowed destination",
			v.EgressAllow...),
		sound.Ranges("denied destination", v.EgressDeny...),
		sound.Texts(v.AllowedTenants...),
	)
}

// Check implements descriptor.Checked.
func (c *VNIClaim) Check() error {
	return cmp.Or(sound.VNI("VNI", c.VNI), sound.Names(c.VPC), sound.Texts(c.VPCUID))
}

// Check implements descriptor.Checked.
func (n *Network) Check() error { return sound.Texts(n.Type, n.VPC) }

// Check implements descriptor.Checked.
func (u *Usage) Check() error { return cmp.Or(sound.Names(u.Of), sound.Texts(u.Kind)) }

// Check implements descriptor.Checked.
func (s *SharedService) Check() error { return sound.Names(s.ServiceNamespace, s.ServiceName) }

// Check implements descriptor.Checked.
func (r *RollCall) Check() error { return sound.Texts(r.Call) }

// Check implements descriptor.Checked.
func (s *Subnet) Check() error {
	if err := cmp.Or(sound.OwnRanges("range", s.Prefixes...), sound.Hosts("gateway", s.Gateways...), sound.OnePerFamily("gateways", s.Gateways),
		sound.Names(s.VPC, s.ShortName)); err != nil {
		return err
	}
	if len(s.Gateways) != len(s.Prefixes) {
		return fmt.Errorf("%d gateways for %d ranges", len(s.Gateways), len(s.Prefixes))
	}
	for i, prefix := range s.Prefixes {
		if !prefix.Contains(s.Gateways[i]) {
			return fmt.Errorf("gateway %s is outside of the range %s", s.Gateways[i], prefix)
		}
		if prefix.Addr().Is4() && s.Gateways[i] == sound.LastOf(prefix) {
			return fmt.Errorf("gateway %s is the broadcast address of the range %s", s.Gateways[i], prefix)
		}
	}
	return CheckRanges(s.Reserved...)
}

// CheckRanges returns an error for the first range without an order or of two families.
func CheckRanges(ranges ...AddrRange) error {
	for _, r := range ranges {
		if !r.First.IsValid() || r.First.Is4() != r.Last.Is4() || r.Last.Less(r.First) {
			return fmt.Errorf("range %s-%s has no order, or two families", r.First, r.Last)
		}
	}
	return nil
}

// Check implements descriptor.Checked.
func (n *Node) Check() error {
	return cmp.Or(sound.Hosts("internal address", n.Addresses...), sound.Hosts("address", n.AllAddresses...))
}

// Check implements descriptor.Checked.
func (c *ServiceCIDR) Check() error { return sound.Ranges("range", c.Prefixes...) }

// Check implements descriptor.Checked.
func (s *Service) Check() error {
	return cmp.Or(
		CheckPorts(s.Ports...),
		sound.Hosts("cluster IP", s.ClusterIPs...),
		sound.Hosts("external IP", s.ExternalIPs...),
		sound.Affinity(s.Affinity),
		sound.Ranges("source range", s.SourceRanges...),
	)
}

// CheckPorts returns an error for the first port without a number.
func CheckPorts(ports ...ServicePort) error {
	for _, port := range ports {
		if port.Port == 0 {
			return fmt.Errorf("port %s has no number", quote.Text(port.Name))
		}
	}
	return nil
}

// Check implements descriptor.Checked. A port without a number is one that the slice leaves
// out.
func (e *EndpointSlice) Check() error {
	for i := range e.Endpoints {
		if err := sound.Hosts("address", e.Endpoints[i].Addresses...); err != nil {
			return err
		}
	}
	return nil
}

// Check implements descriptor.Checked.
func (p *Pod) Check() error {
	for _, port := range p.HostPorts {
		if port.HostPort == 0 || port.Port == 0 {
			return errors.New("a hostPort, or the port that it leads to, has no number")
		}
	}
	return nil
}
