// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"fmt"
)

// NodePort is a port at which every node takes what is for a service of a VPC.
type NodePort struct {
	// VNI is the VPC's, 1 to 1<<24-1.
	VNI uint32
	// Proto is IPPROTO_TCP (6) or IPPROTO_UDP (17), Port 1 to 65535.
	Proto uint8
	Port  uint16
	// Is4 is the family of the node's address.
	Is4 bool
}

func (p NodePort) compare(o NodePort) int {
	return cmp.Or(cmp.Compare(p.VNI, o.VNI), cmp.Compare(p.Proto, o.Proto), cmp.Compare(p.Port, o.Port), cmp.Compare(p.family(), o.family()))
}

func (p NodePort) family() uint8 {
	if p.Is4 {
		return uint8(aliothFamilyFAMILY_V4)
	}
	return uint8(aliothFamilyFAMILY_V6)
}

func (p NodePort) row() aliothNodePort {
	return aliothNodePort{Vni: p.VNI, Port: networkOrder(p.Port), Proto: p.Proto, Family: p.family()}
}

func cookedNodePort(key aliothNodePort) NodePort {
	return NodePort{VNI: key.Vni, Port: networkOrder(key.Port), Proto: key.Proto, Is4: key.Family == uint8(aliothFamilyFAMILY_V4)}
}

func (s *State) checkNodePorts(c *checker) error {
	for _, p := range s.NodePorts {
		if p.Port == 0 || p.Proto != protoTCP && p.Proto != protoUDP {
			return fmt.Errorf("node port %d of protocol %d is none of TCP or UDP", p.Port, p.Proto)
		}
		if err := c.once(nodePortKey(p), "node port %d of VNI %d", p.Port, p.VNI); err != nil {
			return err
		}
		if err := c.present(fmt.Sprintf("node port %d", p.Port), p.VNI); err != nil {
			return err
		}
	}
	return nil
}
