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

	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// settingFlags are the flags of devices that somebody sets (netdevice(7)).
const settingFlags = unix.IFF_UP | unix.IFF_NOARP | unix.IFF_PROMISC | unix.IFF_ALLMULTI | unix.IFF_MULTICAST | unix.IFF_DYNAMIC | unix.IFF_DEBUG

// common are the settings of devices of all kinds. The alias is one too, and may be missing.
func common() []uint16 {
	return []uint16{
		unix.IFLA_ADDRESS, unix.IFLA_MTU, unix.IFLA_TXQLEN, unix.IFLA_LINKMODE, unix.IFLA_GROUP, unix.IFLA_PROTO_DOWN, unix.IFLA_GSO_MAX_SEGS,
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
	return []uint16{unix.IFLA_IFNAME, unix.IFLA_ADDRESS, unix.IFLA_MTU, unix.IFLA_TXQLEN, unix.IFLA_GROUP, unix.IFLA_NUM_TX_QUEUES, unix.IFLA_NUM_RX_QUEUES}
}

// builder puts a request about a device together.
type builder struct{ body []byte }

func about(index uint32) *builder {
	b := &builder{make([]byte, unix.SizeofIfInfomsg)}
	binary.NativeEndian.PutUint32(b.body[4:], index)
	return b
}

func (b *builder) flags(value, mask uint32) {
	binary.NativeEndian.PutUint32(b.body[8:], value)
	binary.NativeEndian.PutUint32(b.body[12:], mask)
}

func (b *builder) add(kind uint16, content []byte) *builder {
	b.body = appendAttribute(b.body, kind, content)
	return b
}

func (b *builder) copy(from attribute.List, kinds ...uint16) {
	for _, kind := range kinds {
		if content := from.Get(kind); content != nil && (kind != unix.IFLA_ADDRESS || !isZero(content)) {
			b.add(kind, content)
		}
	}
}

// isZero reports whether an address is that of a bridge that lost its last port. Nobody can set
// it.
func isZero(address []byte) bool { return len(bytes.Trim(address, "\x00")) == 0 }

// lostItsPorts reports whether a device is a bridge with that address.
func (l link) lostItsPorts() bool { return l.driver == "bridge" && isZero(l.Get(unix.IFLA_ADDRESS)) }

// info adds what a driver has of a device (IFLA_INFO_DATA), or of a port.
func (b *builder) info(kindOf uint16, kind string, dataOf uint16, data []byte) {
	content := appendAttribute(nil, kindOf, append([]byte(kind), 0))
	if len(data) > 0 {
		content = appendAttribute(content, dataOf|unix.NLA_F_NESTED, data)
	}
	b.add(unix.IFLA_LINKINFO|unix.NLA_F_NESTED, content)
}

// create makes a device again, down and without a controller.
func (p *planner) create(l link) {
	b := about(l.index)
	if p.taken[l.index] {
		b = about(0)
	}
	b.flags(l.flags&settingFlags&^unix.IFF_UP, settingFlags)
	b.copy(l.List, made()...)
	data, ok := p.creation(l)
	if !ok {
		return
	}
	if l.driver != "veth" {
		b.copy(l.List, unix.IFLA_LINK)
	}
	b.info(nl.IFLA_INFO_KIND, l.driver, nl.IFLA_INFO_DATA, data)
	p.created[l.name] = true
	p.request(Request{What: "create " + l.name, Kind: unix.RTM_NEWLINK, Flags: exclusive, Body: b.body})
	if l.lostItsPorts() && !p.taken[l.index] {
		p.losePorts(l)
	}
}

// passingPort is the name of a device that an undo makes for a moment.
const passingPort = "alioth-no-port"

// losePorts gives a new bridge a port and takes that away, which gives the bridge the address
// zero.
func (p *planner) losePorts(bridge link) {
	named := func() *builder { return about(0).add(unix.IFLA_IFNAME, append([]byte(passingPort), 0)) }
	b := named().add(unix.IFLA_MASTER, binary.NativeEndian.AppendUint32(nil, bridge.index))
	b.info(nl.IFLA_INFO_KIND, "veth", nl.IFLA_INFO_DATA, nil)
	p.request(Request{What: "attach a port to " + bridge.name, Kind: unix.RTM_NEWLINK, Flags: exclusive, Body: b.body})
	p.request(Request{What: "delete the port of " + bridge.name, Kind: unix.RTM_DELLINK, Body: named().body})
}

// creation returns what the driver needs for a new device, and false if it can't be made.
func (p *planner) creation(l link) (data []byte, ok bool) {
	switch {
	case l.driver == "":
		p.impossible("%s: the hardware is gone", l.name)
		return nil, false
	case l.driver == "veth":
		return p.pair(l)
	case l.Get(unix.IFLA_LINK_NETNSID) != nil:
		p.impossible("%s: the network below it is in another network namespace", l.name)
		return nil, false
	case l.base != 0 && p.now[l.base].index == 0 && !p.created[p.before[l.base].name]:
		p.impossible("%s: the interface below it is gone", l.name)
		return nil, false
	}
	return ofDevices(l.driver).creation(l.data), true
}

// pair returns the other end of a pair, which is made with this one.
func (p *planner) pair(l link) (data []byte, ok bool) {
	peer, ok := p.before[l.base]
	if !ok || !peer.isPairWith(l) {
		p.impossible("%s: the other end of the pair is in another network namespace", l.name)
		return nil, false
	}
	end := about(peer.index)
	if p.taken[peer.index] {
		end = about(0)
	}
	end.flags(peer.flags&settingFlags&^unix.IFF_UP, settingFlags)
	end.copy(peer.List, made()...)
	p.created[peer.name] = true
	const attribute = 1 // VETH_INFO_PEER
	return appendAttribute(nil, attribute|unix.NLA_F_NESTED, end.body), true
}

// change gives a device its settings back. A device is detached before its settings change,
// and attached after its controller's did.
func (p *planner) change(was, is link) {
	p.settings(was, is)
	p.names(was, is)
	p.token(was, is)
	if was.controller != is.controller {
		if is.controller != 0 {
			p.link(is, "detach "+was.name, func(b *builder) { b.add(unix.IFLA_MASTER, make([]byte, 4)) })
		}
		if controller, ok := p.now[was.controller]; ok {
			p.attach(was, is, controller)
		}
	}
	if was.controller != 0 && was.controller == is.controller && was.portOf == is.portOf {
		p.driver(was, was.portOf, ofPorts(was.portOf), was.port, is.port, nl.IFLA_INFO_SLAVE_KIND, nl.IFLA_INFO_SLAVE_DATA)
	}
	if mask := (was.flags ^ is.flags) & settingFlags; mask != 0 {
		p.link(is, "flags of "+was.name, func(b *builder) { b.flags(was.flags&mask, mask) })
	}
}

// attach makes a device a port again. A bond takes no port that is up. It keeps the address with
// which a port comes, and gives it back when the port goes.
func (p *planner) attach(was, is, controller link) {
	if controller.driver == "bond" && is.flags&unix.IFF_UP != 0 {
		p.link(is, "set down "+was.name, func(b *builder) { b.flags(0, unix.IFF_UP) })
	}
	if own := was.port.Get(nl.IFLA_BOND_SLAVE_PERM_HWADDR); controller.driver == "bond" && own != nil {
		p.link(is, "own address of "+was.name, func(b *builder) { b.add(unix.IFLA_ADDRESS, own) })
	}
	p.link(is, fmt.Sprintf("attach %s to %s", was.name, controller.name), func(b *builder) {
		b.add(unix.IFLA_MASTER, binary.NativeEndian.AppendUint32(nil, controller.index))
	})
}

func (p *planner) settings(was, is link) {
	for _, kind := range append(common(), unix.IFLA_IFALIAS) {
		want, have := was.Get(kind), is.Get(kind)
		if bytes.Equal(want, have) || want == nil && kind != unix.IFLA_IFALIAS || kind == unix.IFLA_ADDRESS && (p.follows(was) || isZero(want)) {
			continue
		}
		if kind == unix.IFLA_IFALIAS {
			want = bytes.TrimRight(want, "\x00")
		}
		set := func() {
			p.link(is, fmt.Sprintf("attribute %d of %s", kind, was.name), func(b *builder) { b.add(kind, want) })
		}
		if base, ok := p.now[was.base]; ok && kind == unix.IFLA_MTU && was.driver == "vxlan" {
			p.below(base, was, set)
			continue
		}
		set()
	}
	if was.driver == is.driver {
		p.driver(was, was.driver, ofDevices(was.driver), was.data, is.data, nl.IFLA_INFO_KIND, nl.IFLA_INFO_DATA)
	}
}

// follows reports whether the address of a device may follow from others: that of hardware in
// a bond, and that of a bridge until the bridge has its ports again.
func (p *planner) follows(was link) bool {
	return was.driver == "" && was.portOf == "bond" || was.driver == "bridge" && !p.hasItsPorts(was)
}

// hasItsPorts reports whether a controller has the ports that it had.
func (p *planner) hasItsPorts(controller link) bool {
	return slices.Equal(portsIn(p.before, controller), portsIn(p.now, controller))
}

func portsIn(devices map[uint32]link, controller link) (ports []uint32) {
	for _, index := range slices.Sorted(maps.Keys(devices)) {
		if devices[index].controller == controller.index {
			ports = append(ports, index)
		}
	}
	return ports
}

// overhead is more than a tunnel adds to a packet, in bytes.
const overhead = 100

// below raises the MTU of the device below a tunnel while it sets the tunnel's: that device's
// may have been lowered after the tunnel's was set.
func (p *planner) below(base, tunnel link, set func()) {
	lower, want := base.Value(unix.IFLA_MTU), tunnel.Value(unix.IFLA_MTU)+overhead
	mtu := func(size uint32) {
		p.link(base, fmt.Sprintf("MTU %d of %s", size, base.name), func(b *builder) {
			b.add(unix.IFLA_MTU, binary.NativeEndian.AppendUint32(nil, size))
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
func (p *planner) driver(l link, kind string, d driver, was, is attribute.List, kindOf, dataOf uint16) {
	now, list := p.now[l.index], d.changed(was, is)
	if among(list, d.alone) {
		p.detachPorts(now)
	}
	stopped := now.flags&unix.IFF_UP != 0 && among(list, d.stopped)
	if stopped {
		p.link(now, "set down "+l.name, func(b *builder) { b.flags(0, unix.IFF_UP) })
	}
	for _, setting := range list {
		content := d.content(setting.kind, setting.content)
		b := about(now.index)
		b.info(kindOf, kind, dataOf, appendAttribute(nil, setting.kind, content))
		p.request(Request{What: fmt.Sprintf("setting %d of %s %s", setting.kind, kind, l.name), Kind: unix.RTM_NEWLINK, Body: b.body})
	}
	if stopped {
		p.link(now, "set up "+l.name, func(b *builder) { b.flags(unix.IFF_UP, unix.IFF_UP) })
	}
}

func among(list []pair, kinds []uint16) bool {
	return slices.ContainsFunc(list, func(p pair) bool { return slices.Contains(kinds, p.kind) })
}

// detachPorts detaches all ports of a device. The next look attaches those that it had.
func (p *planner) detachPorts(controller link) {
	for _, index := range portsIn(p.now, controller) {
		port := p.now[index]
		p.link(port, "detach "+port.name, func(b *builder) { b.add(unix.IFLA_MASTER, make([]byte, 4)) })
	}
}

// link requests a change of a device.
func (p *planner) link(l link, what string, fill func(*builder)) {
	b := about(l.index)
	fill(b)
	p.request(Request{What: what, Kind: unix.RTM_NEWLINK, Body: b.body})
}
