// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"

	"github.com/alioth-net/alioth/api/ipfamily"
)

// NodePort is a port at which every node accepts packets for a service of a VPC.
type NodePort struct {
	// VNI is the VPC's, 1 to 1<<24-1.
	VNI uint32
	// Proto is IPPROTO_TCP (6) or IPPROTO_UDP (17), Port 1 to 65535.
	Proto uint8
	Port  uint16
	// Family is the family of the node's address.
	Family ipfamily.Family
}

func (p NodePort) compare(o NodePort) int {
	return cmp.Or(
		cmp.Compare(p.VNI, o.VNI),
		cmp.Compare(p.Proto, o.Proto),
		cmp.Compare(p.Port, o.Port),
		cmp.Compare(p.Family, o.Family),
	)
}

func (s *State) checkNodePorts(c *checker) error {
	return each(c, &s.NodePorts, func(p NodePort) error {
		if p.Port == 0 || p.Proto != ProtoTCP && p.Proto != ProtoUDP {
			return fmt.Errorf("node port %d of protocol %d is none of TCP or UDP", p.Port, p.Proto)
		}
		if p.Family != ipfamily.IPv4 && p.Family != ipfamily.IPv6 {
			return fmt.Errorf("node port %d is of no family, want IPv4 or IPv6", p.Port)
		}
		if err := c.present(fmt.Sprintf("node port %d", p.Port), p.VNI); err != nil {
			return err
		}
		return c.once(nodePortKey(p), "node port %d of VNI %d", p.Port, p.VNI)
	})
}

func (p NodePort) text() (key, content string) {
	return fmt.Sprintf(
		"node port %d protocol %d in VNI %d, IPv4 %t",
		p.Port,
		p.Proto,
		p.VNI,
		p.Family == ipfamily.IPv4,
	), present
}
