// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// Names of random states, with their types.
var kinds = []struct{ name, kind string }{
	{"eth0", document.Ethernet},
	{"eth1", document.Ethernet},
	{"eth2", document.Ethernet},
	{"eth3", document.Ethernet},
	{"bond0", document.Bond},
	{"br0", document.LinuxBridge},
	{"br1", document.LinuxBridge},
	{"vrf0", document.VRFType},
	{"bond0.5", document.VLANType},
	{"eth1.7", document.VLANType},
	{"bond0.5.9", document.VLANType},
	{"vx0", document.VXLANType},
	{"mv0", document.MACVLANType},
	{"ipv0", document.IPVLANType},
	{"va", document.VethPair},
	{"vb", document.VethPair},
	{"dummy0", document.Dummy},
}

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// randomState returns a desired state. It may be wrong.
func randomState(r *rand.Rand) *document.State {
	s := &document.State{Routes: &document.Routes{}, RouteRules: &document.RouteRules{}}
	for _, n := range r.Perm(len(kinds))[:1+r.IntN(5)] {
		s.Interfaces = append(s.Interfaces, randomInterface(r, n))
	}
	for range r.IntN(3) {
		s.Routes.Config = append(s.Routes.Config, randomRoute(r))
	}
	if chance(r, 30) {
		s.RouteRules.Config = append(s.RouteRules.Config, document.RouteRule{
			From: pick(r, "192.0.2.0/24", "2001:db8::/32"), State: pick(r, "", "", document.Absent), Table: new(int64(100)), Priority: new(pick(r, int64(10), 20)),
		})
	}
	return s
}

func randomInterface(r *rand.Rand, n int) document.Interface {
	i := document.Interface{Name: kinds[n].name, Type: kinds[n].kind, State: pick(r, "", "", "", "", "", document.Down, document.Absent)}
	if i.State != "" {
		return i
	}
	if chance(r, 20) {
		i.Description = new(pick(r, "", "uplink"))
	}
	if chance(r, 20) {
		i.AltNames = []document.AltName{{Name: pick(r, "rack-1", "rack-2", "eth9"), State: pick(r, "", "", document.Absent)}}
	}
	if chance(r, 25) {
		i.MTU = new(pick(r, 1400, 1500, 4000, 9000))
	}
	if chance(r, 10) {
		i.AcceptAllMACAddresses = new(chance(r, 50))
	}
	if chance(r, 40) {
		i.IPv4 = &document.IP{Enabled: new(true), Addresses: randomAddresses(r, fmt.Sprintf("10.%d.%%d.%%d", n), 24)}
	}
	if chance(r, 30) {
		i.IPv6 = &document.IP{Enabled: new(true), Addresses: randomAddresses(r, fmt.Sprintf("fd00:%d:%%d::%%d", n), 64)}
	} else if chance(r, 15) {
		i.IPv6 = &document.IP{Enabled: new(false)}
	}
	randomSection(r, &i)
	return i
}

func randomAddresses(r *rand.Rand, format string, bits int) []document.Address {
	list := []document.Address{}
	for _, n := range r.Perm(6)[:r.IntN(4)] {
		list = append(list, document.Address{IP: fmt.Sprintf(format, 1+n/3, 1+n%3), PrefixLength: bits})
	}
	return list
}

func randomSection(r *rand.Rand, i *document.Interface) {
	switch i.Type {
	case document.Bond:
		i.Bond = randomBond(r)
	case document.LinuxBridge:
		i.Bridge = randomBridge(r, i.Name)
	case document.VRFType:
		i.VRF = &document.VRF{Table: new(pick(r, int64(50), 50, 60))}
		if chance(r, 50) {
			i.VRF.Ports = randomPorts(r, "eth2", "eth3", "bond0.5", "br1", "va")
		}
	case document.VLANType:
		base := map[string]string{"bond0.5": "bond0", "eth1.7": "eth1", "bond0.5.9": "bond0.5"}[i.Name]
		i.VLAN = &document.VLAN{Base: base, ID: new(pick(r, 5, 5, 5, 6))}
		if chance(r, 10) && i.Name != "bond0.5.9" {
			i.VLAN.Base = "eth2"
			i.VLAN.ID = new(len(i.Name))
		}
	case document.VXLANType:
		i.VXLAN = &document.VXLAN{ID: new(pick(r, 7, 7, 8)), Base: pick(r, "", "eth2", "bond0"), Remote: "192.0.2.9"}
	case document.MACVLANType:
		i.MACVLAN = &document.MACVLAN{Base: pick(r, "eth2", "bond0"), Mode: pick(r, "bridge", "private", "vepa")}
	case document.IPVLANType:
		i.IPVLAN = &document.IPVLAN{Base: "eth3"}
	case document.VethPair:
		i.Veth = &document.Veth{Peer: map[string]string{"va": "vb", "vb": pick(r, "va", "va", "vc")}[i.Name]}
	}
	if chance(r, 15) {
		i.Controller = new(pick(r, "", "", "br0", "bond0", "vrf0"))
	}
}

func randomPorts(r *rand.Rand, names ...string) []string {
	ports := []string{}
	for _, n := range r.Perm(len(names))[:r.IntN(3)] {
		ports = append(ports, names[n])
	}
	return ports
}

func randomBond(r *rand.Rand) *document.LinkAggregation {
	b := &document.LinkAggregation{Mode: pick(r, "802.3ad", "802.3ad", "active-backup")}
	if chance(r, 60) {
		b.Ports = randomPorts(r, "eth0", "eth1", "eth2", "va")
	}
	if chance(r, 40) {
		b.Options = map[string]any{"miimon": int64(pick(r, 100, 200))}
		if b.Mode == "802.3ad" {
			b.Options["lacp_rate"] = pick[any](r, "fast", "slow", int64(1))
		}
	}
	if b.Mode == "active-backup" && len(b.Ports) > 0 && chance(r, 50) {
		b.Options = map[string]any{"primary": b.Ports[0]}
	}
	if lacp, ok := b.Options["lacp_rate"]; ok && lacp == int64(1) {
		b.Options["lacp_rate"] = "fast"
	}
	return b
}

func randomBridge(r *rand.Rand, name string) *document.Bridge {
	b := &document.Bridge{}
	if chance(r, 30) {
		b.Options = &document.BridgeOptions{STP: &document.STP{Enabled: new(chance(r, 50))}, MACAgeingTime: new(pick(r, 100, 300))}
	}
	if chance(r, 40) {
		return b
	}
	b.Ports = []document.BridgePort{}
	all := []string{"eth3", "vx0", "bond0", "dummy0"}
	if name == "br1" {
		all = []string{"eth2", "vb", "eth1.7", "mv0", "eth3"}
	}
	for _, port := range randomPorts(r, all...) {
		p := document.BridgePort{Name: port}
		if chance(r, 40) {
			p.Hairpin, p.PathCost = new(chance(r, 50)), new(pick(r, 10, 100))
		}
		if chance(r, 30) {
			p.VLAN = &document.PortVLAN{Mode: document.PortTrunk, TrunkTags: []document.TrunkTag{{ID: new(4)}, {Range: &document.TagRange{Min: 5, Max: 9}}}}
		}
		b.Ports = append(b.Ports, p)
	}
	return b
}

func randomRoute(r *rand.Rand) document.Route {
	n := r.IntN(len(kinds))
	route := document.Route{Interface: kinds[n].name, Destination: fmt.Sprintf("198.51.%d.0/24", r.IntN(3))}
	if chance(r, 25) {
		route.Interface = ""
		route.State = document.Absent
		return route
	}
	if chance(r, 10) {
		return document.Route{State: document.Absent, Interface: kinds[n].name}
	}
	if chance(r, 10) {
		return document.Route{Destination: route.Destination, Type: document.Blackhole, Metric: new(int64(9))}
	}
	route.Metric = new(int64(10 + n))
	switch {
	case chance(r, 30):
		route.Destination = fmt.Sprintf("2001:db8:%d::/48", r.IntN(3))
		if chance(r, 50) {
			route.Address = fmt.Sprintf("fd00:%d:%d::9", n, 1+r.IntN(2))
		}
	case chance(r, 60):
		route.Address = fmt.Sprintf("10.%d.%d.9", n, 1+r.IntN(2))
		if chance(r, 40) {
			route.Source = fmt.Sprintf("10.%d.%d.1", n, 1+r.IntN(2))
		}
	}
	return route
}
