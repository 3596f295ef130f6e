// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// detach takes ports off controllers whose ports they shall not be.
func (p *planner) detach() {
	p.each(func(now, want *document.Interface) {
		c := controller(now)
		if c == "" || want.Controller == nil || *want.Controller == c || compare.Recreated(*now, *want) {
			return
		}
		kind := ""
		if p.now[c] != nil {
			kind = p.now[c].Type
			p.portsOf(c)
		}
		p.step(Enslave{Port: now.Name, Type: kind})
		p.detached(now, kind)
	})
}

// portsOf notes that the ports of a controller change. A bridge without MAC address and MTU
// of its own takes them from its ports.
func (p *planner) portsOf(name string) {
	if c := p.now[name]; c.Type == document.LinuxBridge {
		p.dirty[name] = true
		c.MACAddress, c.MTU = "", nil
	}
}

// deleteInterfaces deletes unwanted interfaces, and interfaces that have to be made anew,
// children before parents. The kernel deletes the interfaces above them, so the planner deletes
// these too.
func (p *planner) deleteInterfaces() {
	going := map[string]bool{}
	for _, name := range p.order {
		now, want := p.now[name], p.want[name]
		if p.dirty[name] && now != nil && (want == nil || compare.Recreated(*now, *want)) {
			p.goes(name, going)
		}
	}
	for _, name := range slices.Backward(p.order) {
		if going[name] && p.now[name] != nil {
			p.step(Delete{name})
			p.lost(name)
		}
	}
}

// goes notes an interface that goes, and what goes with it.
func (p *planner) goes(name string, going map[string]bool) {
	i := p.now[name]
	if i == nil || going[name] {
		return
	}
	going[name] = true
	for _, above := range p.derived[name] {
		if p.now[above] != nil && p.now[above].Base() == name {
			p.goes(above, going)
		}
	}
	if i.Veth != nil {
		p.goes(i.Veth.Peer, going)
	}
}

// create makes the missing interfaces.
func (p *planner) create() {
	for _, name := range p.order {
		want := p.want[name]
		if want == nil || p.now[name] != nil {
			continue
		}
		p.dirty[name] = true
		if !compare.Virtual(want.Type) {
			// It appears by itself, or the first step on it says that it is missing.
			p.now[name] = &document.Interface{Name: name, Type: want.Type, State: document.Down, Controller: new("")}
			continue
		}
		made := p.made(want)
		p.step(Create{made})
		p.exists(made)
		if made.Veth != nil && made.Veth.Peer != "" && p.now[made.Veth.Peer] == nil {
			p.exists(document.Interface{Name: made.Veth.Peer, Type: made.Type, Veth: &document.Veth{Peer: name}})
		}
	}
}

// defaultMTU is the kernel's of a new bond (ETH_DATA_LEN).
const defaultMTU = 1500

// exists notes a new interface.
func (p *planner) exists(made document.Interface) {
	p.dirty[made.Name] = true
	made.State, made.Controller, made.AcceptAllMACAddresses = document.Down, new(""), new(false)
	made.IPv4, made.IPv6 = nil, nil
	if made.Type == document.Bond && made.MTU == nil {
		made.MTU = new(defaultMTU)
	}
	p.now[made.Name] = &made
}

// made returns the settings of an interface that Create takes. Later steps set the rest.
func (p *planner) made(want *document.Interface) document.Interface {
	made := document.Interface{
		Name: want.Name, Type: want.Type, Description: want.Description, MACAddress: want.MACAddress, MTU: want.MTU,
		Veth: want.Veth, VLAN: want.VLAN, VXLAN: want.VXLAN, MACVLAN: want.MACVLAN, IPVLAN: want.IPVLAN,
	}
	if base := p.now[want.Base()]; base != nil && made.MTU != nil && base.MTU != nil && *made.MTU > *base.MTU {
		made.MTU = nil // The base gets a larger one later.
	}
	if want.Bond != nil {
		made.Bond = &document.LinkAggregation{Mode: want.Bond.Mode, Options: withoutPorts(want.Bond.Options)}
	}
	if want.Bridge != nil {
		made.Bridge = &document.Bridge{Options: want.Bridge.Options}
	}
	if want.VRF != nil {
		made.VRF = &document.VRF{Table: want.VRF.Table}
	}
	return made
}

// enslave makes interfaces ports.
func (p *planner) enslave() {
	p.each(func(now, want *document.Interface) {
		c := controller(want)
		if c == "" || controller(now) == c || p.now[c] == nil {
			return
		}
		to := p.now[c]
		if to.Type == document.Bond {
			p.clearAddresses(now, want)
			p.startBase(now)
			p.stop(now)
		}
		p.step(Enslave{Port: now.Name, Controller: c, Type: to.Type})
		p.attached(now, to)
	})
}

// startBase sets up the interface below a VLAN. A bond sets its new ports up, and the kernel
// refuses to set up a VLAN whose base is down.
func (p *planner) startBase(i *document.Interface) {
	base := p.now[i.Base()]
	if i.VLAN == nil || base == nil || base.State != document.Down {
		return
	}
	p.startBase(base)
	p.step(SetUp{base.Name})
	p.started(base)
}

// stop sets an interface down that is not.
func (p *planner) stop(i *document.Interface) {
	if i.State != document.Down {
		p.step(SetDown{i.Name})
		p.stopped(i)
	}
}

// activate sets interfaces up, controllers before ports before children, and then down
// what shall be, the other way round.
func (p *planner) activate() {
	p.each(func(now, want *document.Interface) {
		if want.State != document.Down && now.State == document.Down {
			p.step(SetUp{now.Name})
			p.started(now)
		}
	})
	for _, name := range slices.Backward(p.order) {
		now, want := p.now[name], p.want[name]
		if p.dirty[name] && now != nil && want != nil && want.State == document.Down {
			p.stop(now)
		}
	}
}

// setVFs sets virtual functions, before anything that names their interfaces.
func (p *planner) setVFs() {
	p.each(func(now, want *document.Interface) {
		if want.Ethernet == nil || want.Ethernet.SRIOV == nil {
			return
		}
		is := document.SRIOV{}
		if now.Ethernet != nil && now.Ethernet.SRIOV != nil {
			is = *now.Ethernet.SRIOV
		}
		if vfsDiffer(is, *want.Ethernet.SRIOV) {
			p.step(SetVFs{now.Name, *want.Ethernet.SRIOV})
		}
	})
}
