// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"maps"
	"slices"
)

// program names a program that is attached to a device.
type program string

const (
	programFromPod program = "from_pod"
	programToPod   program = "to_pod"
	// programFromNetkit is alioth_from_pod where a netkit pair runs it.
	programFromNetkit program = "from_netkit"

	// On one device of a node each, through links where there are any.
	programFromTunnel   program = "from_tunnel"
	programFromUnderlay program = "from_underlay"
	programToUnderlay   program = "to_underlay"
	programFragment     program = "fragment"
)

// attachment is one program on one interface.
type attachment struct {
	Ifindex uint32
	Program program
}

// none is the value of tables that are sets.
type none = struct{}

// tables are the rows of all maps that a State decides. Flows stands for the
// two maps that account the flows of an interface, and affinities for the tables
// that VPCs have for these: their values belong to the programs, their keys to us.
type tables struct {
	interfaces  map[uint32]aliothInterface
	flows       map[uint32]none
	attachments map[attachment]none
	addresses   map[aliothAddressKey]aliothAddress
	subnets     map[aliothPrefixKey]uint32
	ranges      map[aliothPrefixKey]uint32
	vpcs        map[uint32]aliothVpc
	nodes       map[aliothAddr]uint32
	nodePorts   map[aliothNodePort]uint32
	announced   map[aliothAddr]uint32
	closed      map[aliothPrefixKey]aliothClosed
	services    map[aliothServiceKey]aliothService
	backends    map[aliothBackendKey]aliothBackend
	choices     map[uint32]aliothChoice
	maglev      map[aliothMaglevKey]aliothMaglev
	affinities  map[uint32]none
	targets     map[aliothTargetKey]aliothAddr
	namespaces  map[uint64]aliothNetns
	// nextID is the id of the next service without one, once there was any.
	nextID uint32
}

func newTables() *tables {
	return &tables{
		interfaces:  map[uint32]aliothInterface{},
		flows:       map[uint32]none{},
		attachments: map[attachment]none{},
		addresses:   map[aliothAddressKey]aliothAddress{},
		subnets:     map[aliothPrefixKey]uint32{},
		ranges:      map[aliothPrefixKey]uint32{},
		vpcs:        map[uint32]aliothVpc{},
		nodes:       map[aliothAddr]uint32{},
		nodePorts:   map[aliothNodePort]uint32{},
		announced:   map[aliothAddr]uint32{},
		closed:      map[aliothPrefixKey]aliothClosed{},
		services:    map[aliothServiceKey]aliothService{},
		backends:    map[aliothBackendKey]aliothBackend{},
		choices:     map[uint32]aliothChoice{},
		maglev:      map[aliothMaglevKey]aliothMaglev{},
		affinities:  map[uint32]none{},
		targets:     map[aliothTargetKey]aliothAddr{},
		namespaces:  map[uint64]aliothNetns{},
	}
}

// add adds the rows of a valid part of a State, see Parts.compile; list are the virtual
// addresses of the VPC that it is of, which are added apart from it.
func (t *tables) add(s *state.State, list []*state.VirtualAddress, have *tables) {
	for _, i := range s.Interfaces {
		t.addInterface(i, len(list) > 0)
	}
	for _, a := range s.Addresses {
		key, row := rawAddress(a)
		t.addresses[key] = row
	}
	for _, n := range s.Subnets {
		t.subnets[rawPrefix(n.VNI, n.Prefix)] = 0
	}
	for _, v := range s.VPCs {
		t.addVPC(v)
		if state.HasAffinity(list) {
			t.affinities[v.VNI] = none{}
		}
	}
	for _, n := range s.Nodes {
		t.nodes[rawAddr(n)] = 0
	}
	for _, p := range s.NodePorts {
		t.nodePorts[rawNodePort(p)] = 0
	}
	for _, ip := range s.Announced {
		t.announced[rawAddr(ip)] = 0
	}
	for _, c := range s.Closed {
		t.closed[rawPrefix(c.VNI, c.Prefix)] = aliothClosed{Class: aliothClosedClass(c.Class)}
	}
	t.addServices(s.Services, have)
	for _, n := range s.Namespaces {
		t.namespaces[n.Cookie] = rawNamespace(n)
	}
	for _, p := range s.Probes {
		t.targets[aliothTargetKey{Ip: rawAddr(p.IP)}] = rawAddr(p.Shadow)
	}
	for _, h := range s.Hooks {
		t.targets[aliothTargetKey{Scope: aliothTargetScopeTARGET_HOOK, Ip: rawAddr(h.IP)}] = rawAddr(h.Shadow)
	}
}

// only returns the rows whose key is in one of two others.
func (t *tables) only(a, b *tables) *tables {
	return &tables{
		interfaces:  pick(t.interfaces, a.interfaces, b.interfaces),
		flows:       pick(t.flows, a.flows, b.flows),
		attachments: pick(t.attachments, a.attachments, b.attachments),
		addresses:   pick(t.addresses, a.addresses, b.addresses),
		subnets:     pick(t.subnets, a.subnets, b.subnets),
		ranges:      pick(t.ranges, a.ranges, b.ranges),
		vpcs:        pick(t.vpcs, a.vpcs, b.vpcs),
		nodes:       pick(t.nodes, a.nodes, b.nodes),
		nodePorts:   pick(t.nodePorts, a.nodePorts, b.nodePorts),
		announced:   pick(t.announced, a.announced, b.announced),
		closed:      pick(t.closed, a.closed, b.closed),
		services:    pick(t.services, a.services, b.services),
		backends:    pick(t.backends, a.backends, b.backends),
		choices:     pick(t.choices, a.choices, b.choices),
		maglev:      pick(t.maglev, a.maglev, b.maglev),
		affinities:  pick(t.affinities, a.affinities, b.affinities),
		targets:     pick(t.targets, a.targets, b.targets),
		namespaces:  pick(t.namespaces, a.namespaces, b.namespaces),
	}
}

func pick[K comparable, V any](from map[K]V, keys ...map[K]V) map[K]V {
	found := map[K]V{}
	for _, list := range keys {
		for k := range list {
			if v, ok := from[k]; ok {
				found[k] = v
			}
		}
	}
	return found
}

// swap replaces rows by others.
func (t *tables) swap(old, now *tables) {
	exchange(t.interfaces, old.interfaces, now.interfaces)
	exchange(t.flows, old.flows, now.flows)
	exchange(t.attachments, old.attachments, now.attachments)
	exchange(t.addresses, old.addresses, now.addresses)
	exchange(t.subnets, old.subnets, now.subnets)
	exchange(t.ranges, old.ranges, now.ranges)
	exchange(t.vpcs, old.vpcs, now.vpcs)
	exchange(t.nodes, old.nodes, now.nodes)
	exchange(t.nodePorts, old.nodePorts, now.nodePorts)
	exchange(t.announced, old.announced, now.announced)
	exchange(t.closed, old.closed, now.closed)
	exchange(t.services, old.services, now.services)
	exchange(t.backends, old.backends, now.backends)
	exchange(t.choices, old.choices, now.choices)
	exchange(t.maglev, old.maglev, now.maglev)
	exchange(t.affinities, old.affinities, now.affinities)
	exchange(t.targets, old.targets, now.targets)
	exchange(t.namespaces, old.namespaces, now.namespaces)
	t.nextID = max(t.nextID, now.nextID)
}

func exchange[K comparable, V any](in, old, now map[K]V) {
	for k := range old {
		delete(in, k)
	}
	maps.Copy(in, now)
}

// addInterface adds an interface; served reports whether its VPC has services.
func (t *tables) addInterface(i state.Interface, served bool) {
	row := aliothInterface{Vni: i.VNI, Mac: i.MAC}
	if served {
		row.Flags |= aliothInterfaceFlagINTERFACE_SERVICES
	}
	for _, ip := range i.Addrs {
		row.Ip[familyIndex(ip.Unmap())] = rawAddr(ip)
	}
	row.Shadow[aliothFamilyFAMILY_V4] = rawAddr(i.Shadow4)
	row.Shadow[aliothFamilyFAMILY_V6] = rawAddr(i.Shadow6)
	row.Gateway[aliothFamilyFAMILY_V4] = rawAddr(i.Gateway4)
	row.Gateway[aliothFamilyFAMILY_V6] = rawAddr(i.Gateway6)
	ifindex := uint32(i.Ifindex)
	for _, p := range programsOf(i) {
		t.attachments[attachment{ifindex, p}] = none{}
	}
	switch {
	case i.Node:
		row.Flags |= aliothInterfaceFlagINTERFACE_NODE
	case i.Netkit:
		row.Flags |= aliothInterfaceFlagINTERFACE_NETKIT
	}
	t.interfaces[ifindex] = row
	t.flows[ifindex] = none{}
}

// programsOf are those that the interface's device has.
func programsOf(i state.Interface) []program {
	switch {
	case i.Node:
		return []program{programFromPod}
	case i.Netkit:
		return []program{programFromNetkit, programToPod}
	}
	return []program{programFromPod, programToPod}
}

func (t *tables) addVPC(v state.VPC) {
	var flags aliothVpcFlag
	if v.EgressMasquerade {
		flags |= aliothVpcFlagVPC_EGRESS
	}
	if v.Default {
		flags |= aliothVpcFlagVPC_DEFAULT
	}
	if v.Fronted {
		flags |= aliothVpcFlagVPC_FRONTED
	}
	t.vpcs[v.VNI] = aliothVpc{Flags: flags}
	for _, p := range v.Prefixes {
		t.ranges[rawPrefix(v.VNI, p)] = 0
	}
}

// state turns rows back into the State that they come from, in one canonical
// order.
func (t *tables) state() state.State {
	var s state.State
	for ifindex, row := range t.interfaces {
		s.Interfaces = append(s.Interfaces, cookedInterface(ifindex, row))
	}
	for key, row := range t.addresses {
		s.Addresses = append(s.Addresses, state.Address{
			VNI: key.Vni, IP: cookedAddr(key.Ip), Kind: state.AddressKind(row.Kind),
			Ifindex: int(row.Ifindex), Node: cookedAddr(row.Node), MAC: row.Mac,
		})
	}
	for key := range t.subnets {
		s.Subnets = append(s.Subnets, state.Subnet{VNI: key.Vni, Prefix: cookedPrefix(key)})
	}
	for vni, row := range t.vpcs {
		s.VPCs = append(s.VPCs, t.cookedVPC(vni, row))
	}
	for ip := range t.nodes {
		s.Nodes = append(s.Nodes, cookedAddr(ip))
	}
	for key := range t.nodePorts {
		s.NodePorts = append(s.NodePorts, cookedNodePort(key))
	}
	for ip := range t.announced {
		s.Announced = append(s.Announced, cookedAddr(ip))
	}
	for key, row := range t.closed {
		s.Closed = append(s.Closed, state.ClosedPrefix{VNI: key.Vni, Prefix: cookedPrefix(key), Class: state.ClosedClass(row.Class)})
	}
	for key, row := range t.services {
		if key.Port != 0 {
			s.Services = append(s.Services, t.cookedService(key, row))
		}
	}
	for cookie, row := range t.namespaces {
		s.Namespaces = append(s.Namespaces, cookedNamespace(cookie, row))
	}
	for key, shadow := range t.targets {
		if key.Scope == aliothTargetScopeTARGET_PROBE {
			s.Probes = append(s.Probes, state.ProbeTarget{IP: cookedAddr(key.Ip), Shadow: cookedAddr(shadow)})
		} else {
			s.Hooks = append(s.Hooks, state.HookTarget{IP: cookedAddr(key.Ip), Shadow: cookedAddr(shadow)})
		}
	}
	s.Sort()
	return s
}

func cookedInterface(ifindex uint32, row aliothInterface) state.Interface {
	i := state.Interface{
		Ifindex:  int(ifindex),
		VNI:      row.Vni,
		MAC:      row.Mac,
		Shadow4:  cookedAddr(row.Shadow[aliothFamilyFAMILY_V4]),
		Shadow6:  cookedAddr(row.Shadow[aliothFamilyFAMILY_V6]),
		Gateway4: cookedAddr(row.Gateway[aliothFamilyFAMILY_V4]),
		Gateway6: cookedAddr(row.Gateway[aliothFamilyFAMILY_V6]),
		Node:     row.Flags&aliothInterfaceFlagINTERFACE_NODE != 0,
		Netkit:   row.Flags&aliothInterfaceFlagINTERFACE_NETKIT != 0,
	}
	for _, raw := range row.Ip {
		if ip := cookedAddr(raw); ip.IsValid() {
			i.Addrs = append(i.Addrs, ip)
		}
	}
	return i
}

func (t *tables) cookedVPC(vni uint32, row aliothVpc) state.VPC {
	v := state.VPC{
		VNI:              vni,
		EgressMasquerade: row.Flags&aliothVpcFlagVPC_EGRESS != 0,
		Default:          row.Flags&aliothVpcFlagVPC_DEFAULT != 0,
		Fronted:          row.Flags&aliothVpcFlagVPC_FRONTED != 0,
	}
	for key := range t.ranges {
		if key.Vni == vni {
			v.Prefixes = append(v.Prefixes, cookedPrefix(key))
		}
	}
	slices.SortFunc(v.Prefixes, state.ComparePrefixes)
	return v
}
