// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"net/netip"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Tables of addresses without any further content.
var (
	// Nodes: the underlay addresses of known nodes.
	nodesTable = listed("nodes", func(s *state.State) *[]netip.Addr { return &s.Nodes })
	// Own: the addresses of this node.
	ownAddressesTable = listed("own", func(s *state.State) *[]netip.Addr { return &s.Own })
	// Announced: the external addresses that are announced here.
	announcementsTable = listed("announced", func(s *state.State) *[]netip.Addr { return &s.Announced })
)

// listed describes the table of one of a State's lists of addresses.
func listed(name table[bpf.AliothAddr, uint32], list func(*state.State) *[]netip.Addr) *descriptor {
	return &descriptor{
		anyTable: name,
		encode: func(t *Rows, p part) {
			for _, ip := range *list(p.State) {
				name.of(t)[bpf.EncodeAddr(ip)] = 0
			}
		},
		decode: func(t *Rows, s *state.State) {
			for ip := range name.of(t) {
				*list(s) = append(*list(s), bpf.DecodeAddr(ip))
			}
		},
	}
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
				VNI: key.Vni, Port: bpf.NetworkOrder(key.Port), Proto: key.Proto, Family: decodeFamily(key.Family),
			})
		}
	},
}

func encodeNodePort(p state.NodePort) bpf.AliothNodePort {
	return bpf.AliothNodePort{
		Vni:    p.VNI,
		Port:   bpf.NetworkOrder(p.Port),
		Proto:  p.Proto,
		Family: uint8(bpf.FamilyOf(p.Family)),
	}
}

func decodeFamily(family uint8) ipfamily.Family {
	if family == uint8(bpf.AliothFamilyFAMILY_V4) {
		return ipfamily.IPv4
	}
	return ipfamily.IPv6
}
