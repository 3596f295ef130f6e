// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import "github.com/alioth-net/alioth/ebpf/datapath/state"

// rawAddress is an address as the maps hold it.
func rawAddress(a state.Address) (aliothAddressKey, aliothAddress) {
	return aliothAddressKey{Vni: a.VNI, Ip: rawAddr(a.IP)}, aliothAddress{
		Kind:    aliothAddressKind(a.Kind),
		Ifindex: uint32(a.Ifindex),
		Node:    rawAddr(a.Node),
		Mac:     a.MAC,
	}
}

// compile turns valid parts of these VNIs, and virtual addresses of p, into rows.
// Services that have in held with the same backends keep their id, all others get
// one that have does not use.
func compileParts(p state.Parts, vnis []uint32, addresses []*state.VirtualAddress, have *tables) *tables {
	t := newTables()
	for _, vni := range vnis {
		t.add(p.Part(vni), p.Services[vni], have)
	}
	for _, a := range addresses {
		t.addServices(a.Services, have)
	}
	return t
}

func nodePortFamily(p state.NodePort) uint8 {
	if p.Is4 {
		return uint8(aliothFamilyFAMILY_V4)
	}
	return uint8(aliothFamilyFAMILY_V6)
}

func rawNodePort(p state.NodePort) aliothNodePort {
	return aliothNodePort{Vni: p.VNI, Port: networkOrder(p.Port), Proto: p.Proto, Family: nodePortFamily(p)}
}

func cookedNodePort(key aliothNodePort) state.NodePort {
	return state.NodePort{VNI: key.Vni, Port: networkOrder(key.Port), Proto: key.Proto, Is4: key.Family == uint8(aliothFamilyFAMILY_V4)}
}

func rawNamespace(n state.Namespace) aliothNetns {
	var row aliothNetns
	if n.Shared {
		row.Flags = aliothNetnsFlagNETNS_SHARED
	}
	for i, m := range n.Memberships {
		vpc := &row.Vpc[i]
		vpc.Vni, vpc.Ifindex = m.VNI, uint32(m.Ifindex)
		for _, ip := range m.Addrs {
			vpc.Ip[familyIndex(ip.Unmap())] = rawAddr(ip)
		}
	}
	return row
}

func cookedNamespace(cookie uint64, row aliothNetns) state.Namespace {
	n := state.Namespace{Cookie: cookie, Shared: row.Flags&aliothNetnsFlagNETNS_SHARED != 0}
	for _, vpc := range row.Vpc {
		if vpc.Vni == 0 {
			break
		}
		m := state.Membership{VNI: vpc.Vni, Ifindex: int(vpc.Ifindex)}
		for _, raw := range vpc.Ip {
			if ip := cookedAddr(raw); ip.IsValid() {
				m.Addrs = append(m.Addrs, ip)
			}
		}
		n.Memberships = append(n.Memberships, m)
	}
	return n
}
