// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Nodes: the underlay addresses of known nodes.
const nodeTable = table[bpf.AliothAddr, uint32]("nodes")

var nodesTable = &descriptor{
	anyTable: nodeTable,
	encode: func(t *Rows, p part) {
		for _, ip := range p.Nodes {
			nodeTable.of(t)[bpf.EncodeAddr(ip)] = 0
		}
	},
	decode: func(t *Rows, s *state.State) {
		for ip := range nodeTable.of(t) {
			s.Nodes = append(s.Nodes, bpf.DecodeAddr(ip))
		}
	},
}

// Own: the addresses of this node.
const ownTable = table[bpf.AliothAddr, uint32]("own")

var ownAddressesTable = &descriptor{
	anyTable: ownTable,
	encode: func(t *Rows, p part) {
		for _, ip := range p.Own {
			ownTable.of(t)[bpf.EncodeAddr(ip)] = 0
		}
	},
	decode: func(t *Rows, s *state.State) {
		for ip := range ownTable.of(t) {
			s.Own = append(s.Own, bpf.DecodeAddr(ip))
		}
	},
}

// Announced: the external addresses that are announced here.
const announcedTable = table[bpf.AliothAddr, uint32]("announced")

var announcementsTable = &descriptor{
	anyTable: announcedTable,
	encode: func(t *Rows, p part) {
		for _, ip := range p.Announced {
			announcedTable.of(t)[bpf.EncodeAddr(ip)] = 0
		}
	},
	decode: func(t *Rows, s *state.State) {
		for ip := range announcedTable.of(t) {
			s.Announced = append(s.Announced, bpf.DecodeAddr(ip))
		}
	},
}

// Node ports: {VNI, port, proto, family}, the ports of nodes that lead into the VPC.
const nodePortTable = table[bpf.AliothNodePort, uint32]("node_ports")

var nodePortsTable = &descriptor{
	anyTable: nodePortTable,
	encode: func(t *Rows, p part) {
		rows := nodePortTable.of(t)
		for _, n := range p.NodePorts {
			rows[encodeNodePort(n)] = 0
		}
	},
	decode: func(t *Rows, s *state.State) {
		for key := range nodePortTable.of(t) {
			s.NodePorts = append(s.NodePorts, state.NodePort{
				VNI: key.Vni, Port: bpf.NetworkOrder(key.Port), Proto: key.Proto, Is4: key.Family == uint8(bpf.AliothFamilyFAMILY_V4),
			})
		}
	},
}

func encodeNodePort(p state.NodePort) bpf.AliothNodePort {
	family := bpf.AliothFamilyFAMILY_V6
	if p.Is4 {
		family = bpf.AliothFamilyFAMILY_V4
	}
	return bpf.AliothNodePort{Vni: p.VNI, Port: bpf.NetworkOrder(p.Port), Proto: p.Proto, Family: uint8(family)}
}
