// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// settingFlags are the flags of devices that somebody sets (netdevice(7)).
const settingFlags = unix.IFF_UP | unix.IFF_NOARP | unix.IFF_PROMISC | unix.IFF_ALLMULTI |
	unix.IFF_MULTICAST | unix.IFF_DYNAMIC | unix.IFF_DEBUG

// common are the settings of devices of all kinds. The alias is one too, and may be missing.
func common() []uint16 {
	return []uint16{
		unix.IFLA_ADDRESS, unix.IFLA_MTU, unix.IFLA_TXQLEN, unix.IFLA_LINKMODE, unix.IFLA_GROUP, unix.IFLA_PROTO_DOWN,
		unix.IFLA_GSO_MAX_SEGS,
		unix.IFLA_GSO_MAX_SIZE, unix.IFLA_GRO_MAX_SIZE, gsoIPv4, groIPv4,
	}
}

// Attributes that the library lacks (include/uapi/linux/if_link.h).
const (
	gsoIPv4 = 63 // IFLA_GSO_IPV4_MAX_SIZE
	groIPv4 = 64 // IFLA_GRO_IPV4_MAX_SIZE
)

// made are the attributes of a new device.
func made() []uint16 {
	return []uint16{
		unix.IFLA_IFNAME,
		unix.IFLA_ADDRESS,
		unix.IFLA_MTU,
		unix.IFLA_TXQLEN,
		unix.IFLA_GROUP,
		unix.IFLA_NUM_TX_QUEUES,
		unix.IFLA_NUM_RX_QUEUES,
	}
}

// create makes a device again, down and without a controller.
func (p *planner) create(l object.Link) {
	b := object.About(l.Index)
	if p.taken[l.Index] {
		b = object.About(0)
	}
	b.Flags(l.Flags&settingFlags&^unix.IFF_UP, settingFlags)
	b.Copy(l.List, made()...)
	data, ok := p.creation(l)
	if !ok {
		return
	}
	if l.Driver != "veth" {
		b.Copy(l.List, unix.IFLA_LINK)
	}
	b.Info(nl.IFLA_INFO_KIND, l.Driver, nl.IFLA_INFO_DATA, data)
	p.created[l.Name] = true
	p.request(Request{What: "create " + l.Name, Kind: unix.RTM_NEWLINK, Flags: object.Exclusive, Body: b.Body})
	if l.LostItsPorts() && !p.taken[l.Index] {
		p.losePorts(l)
	}
}

// passingPort is the name of a device that an undo makes for a moment.
const passingPort = "alioth-no-port"

// losePorts gives a new bridge a port and takes that away, which gives the bridge the address
// zero.
func (p *planner) losePorts(bridge object.Link) {
	named := func() *object.Builder { return object.About(0).Add(unix.IFLA_IFNAME, append([]byte(passingPort), 0)) }
	b := named().Add(unix.IFLA_MASTER, binary.NativeEndian.AppendUint32(nil, bridge.Index))
	b.Info(nl.IFLA_INFO_KIND, "veth", nl.IFLA_INFO_DATA, nil)
	p.request(
		Request{What: "attach a port to " + bridge.Name, Kind: unix.RTM_NEWLINK, Flags: object.Exclusive, Body: b.Body},
	)
	p.request(Request{What: "delete the port of " + bridge.Name, Kind: unix.RTM_DELLINK, Body: named().Body})
}

// creation returns what the driver needs for a new device, and false if it can't be made.
func (p *planner) creation(l object.Link) (data []byte, ok bool) {
	switch {
	case l.Driver == "":
		p.impossible("%s: the hardware is gone", l.Name)
		return nil, false
	case l.Driver == "veth":
		return p.pair(l)
	case l.Get(unix.IFLA_LINK_NETNSID) != nil:
		p.impossible("%s: the network below it is in another network namespace", l.Name)
		return nil, false
	case l.Base != 0 && p.now[l.Base].Index == 0 && !p.created[p.before[l.Base].Name]:
		p.impossible("%s: the interface below it is gone", l.Name)
		return nil, false
	}
	return object.OfDevices(l.Driver).Creation(l.Data), true
}

// pair returns the other end of a pair, which is made with this one.
func (p *planner) pair(l object.Link) (data []byte, ok bool) {
	peer, ok := p.before[l.Base]
	if !ok || !peer.IsPairWith(l) {
		p.impossible("%s: the other end of the pair is in another network namespace", l.Name)
		return nil, false
	}
	end := object.About(peer.Index)
	if p.taken[peer.Index] {
		end = object.About(0)
	}
	end.Flags(peer.Flags&settingFlags&^unix.IFF_UP, settingFlags)
	end.Copy(peer.List, made()...)
	p.created[peer.Name] = true
	const attribute = 1 // VETH_INFO_PEER
	return object.AppendAttribute(nil, attribute|unix.NLA_F_NESTED, end.Body), true
}

// change gives a device its settings back. A device is detached before its settings change,
// and attached after its controller's did.
func (p *planner) change(was, is object.Link) {
	p.settings(was, is)
	p.names(was, is)
	p.token(was, is)
	if was.Controller != is.Controller {
		if is.Controller != 0 {
			p.link(is, "detach "+was.Name, func(b *object.Builder) { b.Add(unix.IFLA_MASTER, make([]byte, 4)) })
		}
		if controller, ok := p.now[was.Controller]; ok {
			p.attach(was, is, controller)
		}
	}
	if was.Controller != 0 && was.Controller == is.Controller && was.PortOf == is.PortOf {
		p.driver(
			was,
			was.PortOf,
			object.OfPorts(was.PortOf),
			was.Port,
			is.Port,
			nl.IFLA_INFO_SLAVE_KIND,
			nl.IFLA_INFO_SLAVE_DATA,
		)
	}
	if mask := (was.Flags ^ is.Flags) & settingFlags; mask != 0 {
		p.link(is, "flags of "+was.Name, func(b *object.Builder) { b.Flags(was.Flags&mask, mask) })
	}
}

// attach makes a device a port again. A bond refuses a port that is up. The bond keeps the
// original address of a port, and gives it back when the port goes.
func (p *planner) attach(was, is, controller object.Link) {
	if controller.Driver == "bond" && is.Flags&unix.IFF_UP != 0 {
		p.link(is, "set down "+was.Name, func(b *object.Builder) { b.Flags(0, unix.IFF_UP) })
	}
	if own := was.Port.Get(nl.IFLA_BOND_SLAVE_PERM_HWADDR); controller.Driver == "bond" && own != nil {
		p.link(is, "own address of "+was.Name, func(b *object.Builder) { b.Add(unix.IFLA_ADDRESS, own) })
	}
	p.link(is, fmt.Sprintf("attach %s to %s", was.Name, controller.Name), func(b *object.Builder) {
		b.Add(unix.IFLA_MASTER, binary.NativeEndian.AppendUint32(nil, controller.Index))
	})
}

func (p *planner) settings(was, is object.Link) {
	for _, kind := range append(common(), unix.IFLA_IFALIAS) {
		want, have := was.Get(kind), is.Get(kind)
		if bytes.Equal(want, have) || want == nil && kind != unix.IFLA_IFALIAS ||
			kind == unix.IFLA_ADDRESS && (p.follows(was) || object.IsZero(want)) {
			continue
		}
		if kind == unix.IFLA_IFALIAS {
			want = bytes.TrimRight(want, "\x00")
		}
		set := func() {
			p.link(is, fmt.Sprintf("attribute %d of %s", kind, was.Name), func(b *object.Builder) { b.Add(kind, want) })
		}
		if base, ok := p.now[was.Base]; ok && kind == unix.IFLA_MTU && was.Driver == "vxlan" {
			p.below(base, was, set)
			continue
		}
		set()
	}
	if was.Driver == is.Driver {
		p.driver(was, was.Driver, object.OfDevices(was.Driver), was.Data, is.Data, nl.IFLA_INFO_KIND, nl.IFLA_INFO_DATA)
	}
}

// follows reports whether the address of a device may follow from others. The address of hardware
// in a bond does, and so does the address of a bridge until the bridge has its ports again.
func (p *planner) follows(was object.Link) bool {
	return was.Driver == "" && was.PortOf == "bond" || was.Driver == "bridge" && !p.hasItsPorts(was)
}

// hasItsPorts reports whether a controller has the ports that it had.
func (p *planner) hasItsPorts(controller object.Link) bool {
	return slices.Equal(portsIn(p.before, controller), portsIn(p.now, controller))
}

func portsIn(devices map[uint32]object.Link, controller object.Link) (ports []uint32) {
	for _, index := range slices.Sorted(maps.Keys(devices)) {
		if devices[index].Controller == controller.Index {
			ports = append(ports, index)
		}
	}
	return ports
}

// overhead is more than a tunnel adds to a packet, in bytes.
const overhead = 100

// below raises the MTU of the device below a tunnel while it sets the tunnel's: that device's
// may have been lowered after the tunnel's was set.
func (p *planner) below(base, tunnel object.Link, set func()) {
	lower, want := base.Value(unix.IFLA_MTU), tunnel.Value(unix.IFLA_MTU)+overhead
	mtu := func(size uint32) {
		p.link(base, fmt.Sprintf("MTU %d of %s", size, base.Name), func(b *object.Builder) {
			b.Add(unix.IFLA_MTU, binary.NativeEndian.AppendUint32(nil, size))
		})
	}
	if lower >= want {
		set()
		return
	}
	mtu(want)
	set()
	mtu(lower)
}

// driver restores what a driver has of a device or port, one attribute after the other: the
// kernel refuses some together.
func (p *planner) driver(l object.Link, kind string, d object.Driver, was, is attribute.List, kindOf, dataOf uint16) {
	now, list := p.now[l.Index], d.Changed(was, is)
	if among(list, d.Alone) {
		p.detachPorts(now)
	}
	stopped := now.Flags&unix.IFF_UP != 0 && among(list, d.Stopped)
	if stopped {
		p.link(now, "set down "+l.Name, func(b *object.Builder) { b.Flags(0, unix.IFF_UP) })
	}
	for _, setting := range list {
		content := d.Content(setting.Kind, setting.Content)
		b := object.About(now.Index)
		b.Info(kindOf, kind, dataOf, object.AppendAttribute(nil, setting.Kind, content))
		p.request(
			Request{What: fmt.Sprintf("setting %d of %s %s", setting.Kind, kind, l.Name), Kind: unix.RTM_NEWLINK, Body: b.Body},
		)
	}
	if stopped {
		p.link(now, "set up "+l.Name, func(b *object.Builder) { b.Flags(unix.IFF_UP, unix.IFF_UP) })
	}
}

func among(list []object.Pair, kinds []uint16) bool {
	return slices.ContainsFunc(list, func(p object.Pair) bool { return slices.Contains(kinds, p.Kind) })
}

// detachPorts detaches all ports of a device. The next look attaches those that it had.
func (p *planner) detachPorts(controller object.Link) {
	for _, index := range portsIn(p.now, controller) {
		port := p.now[index]
		p.link(port, "detach "+port.Name, func(b *object.Builder) { b.Add(unix.IFLA_MASTER, make([]byte, 4)) })
	}
}

// link requests a change of a device.
func (p *planner) link(l object.Link, what string, fill func(*object.Builder)) {
	b := object.About(l.Index)
	fill(b)
	p.request(Request{What: what, Kind: unix.RTM_NEWLINK, Body: b.Body})
}
