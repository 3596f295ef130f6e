// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Overhead of VXLAN in bytes: outer IP header, UDP and VXLAN headers, and the inner
// Ethernet header (RFC 7348 section 5).
const (
	overheadIPv4 = 20 + 8 + 8 + 14
	overheadIPv6 = 40 + 8 + 8 + 14
)

// Device is a device of the node.
type Device struct {
	Index int
	// Names has the name first, and the alternative ones.
	Names []string
	// Kind is the kernel's name of the type of a virtual device, "" for others.
	Kind  string
	Alias string
	// Group is the number of a group of devices.
	Group uint32
	// MTU in bytes.
	MTU int
	// Up: somebody has set it up. Ethernet: it has an Ethernet address of six octets.
	Up, Ethernet bool
	// Lower is the index of the device that it is derived from.
	Lower int
	// VNI is the VLAN ID of an 802.1Q device, or the number of a VXLAN device; 0 for
	// others.
	VNI uint32
	// Local is the source of a VXLAN device's packets, Port its UDP port.
	Local netip.Addr
	Port  uint16
	// Addrs are the IP addresses of the device. Lasting are the addresses among them that do not
	// come and go.
	Addrs, Lasting []netip.Addr
}

// Link is a link as it has to be.
type Link struct {
	multinet.LinkID
	Name string
	// Parent is the index of the parent device.
	Parent int
	// MTU in bytes.
	MTU int
	// Up: the parent is up, without which the link can't be.
	Up bool
	// Local is the source address of a VXLAN, Port its UDP port. Peers are the other nodes'
	// addresses of Local's family, in order.
	Local netip.Addr
	Port  uint16
	Peers []netip.Addr
}

// Change is a difference of a link that exists.
type Change struct {
	Index int
	Link
}

// Plan has what changes on a node, and what can't be.
type Plan struct {
	// Delete precedes Make: a new link may have a deleted one's name.
	Delete []Device
	Make   []Link
	Change []Change
	// Links are all that can exist, by identity.
	Links map[multinet.LinkID]Link
	// Failures are why others can't, by device, type and number.
	Failures []multinet.LinkFailure
	// Addresses are the node's own at the devices of its VXLANs, where the other nodes can't
	// know them from its Node object.
	Addresses []multinet.DeviceAddrs
	// Senders are addresses of other nodes. The node accepts packets of VXLANs from them only.
	Senders []netip.Addr
	// More: there are more orphans than one plan deletes.
	More bool
	// Guarded: the node has VXLAN links, or others may have some. The filter is before the port
	// then: a node without links of its own must not let its pods pretend to be that node.
	Guarded bool
}

// maxOrphans bounds the orphans that one plan deletes: the kernel takes some 20 ms for each,
// and an attachment may wait for the plan.
const maxOrphans = 16

// Decide compares what the node has with what it has to have. port is the UDP port of
// VXLAN links.
func Decide(s State, devices []Device, port uint16) Plan {
	s.Peers = s.trusted(devices)
	p := Plan{Links: map[multinet.LinkID]Link{}, Senders: s.senders()}
	possible := p.possible(s, devices, port)
	demanded := map[multinet.LinkID]bool{}
	for _, w := range s.Wanted {
		demanded[w.LinkID] = true
	}
	held := p.keep(
		devices,
		possible,
		func(id multinet.LinkID, d Device) bool { return !demanded[id] || p.unlisted(id, d, s.Own) },
	)
	p.name(s.Wanted, possible, held, devices)
	p.Guarded = p.guarded(s, devices)
	return p
}

// unlisted reports whether a device is a link on a parent that is not listed any more. One
// with an address of the node stays: its parent had the address, which may come back.
func (p *Plan) unlisted(id multinet.LinkID, d Device, own []netip.Addr) bool {
	return len(own) > 0 && !slices.Contains(own, d.Local) &&
		slices.ContainsFunc(p.Failures, func(f multinet.LinkFailure) bool {
			return f.Reason == v1alpha1.VXLANDeviceNotListedReason && f.Concerns(id)
		})
}

// guarded reports whether VXLAN links are demanded, or on the node after the plan.
func (p *Plan) guarded(s State, devices []Device) bool {
	if slices.ContainsFunc(s.Wanted, func(w Wanted) bool { return w.Type == multinet.VXLAN }) {
		return true
	}
	return slices.ContainsFunc(devices, func(d Device) bool {
		id, ours := Marked(d.Alias)
		goes := slices.ContainsFunc(p.Delete, func(gone Device) bool { return gone.Index == d.Index })
		return ours && id.Type == multinet.VXLAN && !goes
	})
}

// possible returns the links whose parents fit, without names, and notes the failures.
func (p *Plan) possible(s State, devices []Device, port uint16) map[multinet.LinkID]Link {
	all := map[multinet.LinkID]Link{}
	for _, w := range s.Wanted {
		link, failure := p.linkOn(w, s, devices)
		if failure != nil && !slices.Contains(p.Failures, *failure) {
			p.Failures = append(p.Failures, *failure)
		}
		if link == nil {
			continue
		}
		if w.Type == multinet.VXLAN {
			link.Port = port
		}
		all[w.LinkID] = *link
	}
	return all
}

// linkOn returns a link on its parent, nil if it can't be, or if only the device itself is
// wanted. With a failure the link exists, but does not work.
func (p *Plan) linkOn(w Wanted, s State, devices []Device) (*Link, *multinet.LinkFailure) {
	at := slices.IndexFunc(devices, func(d Device) bool { return slices.Contains(d.Names, w.Device) })
	if at < 0 {
		return nil, ofParent(
			w,
			v1alpha1.ParentMissingReason,
			"the node has no device %s; create it, or correct the device in the network",
			w.Device,
		)
	}
	parent := devices[at]
	_, isLink := Marked(parent.Alias)
	switch {
	case isLink:
		return nil, ofParent(
			w,
			v1alpha1.ParentUnsuitableReason,
			"device %s is a link of other networks; name its parent in the network",
			w.Device,
		)
	case hostdev.Managed(parent.Names[0]):
		return nil, ofParent(
			w,
			v1alpha1.ParentUnsuitableReason,
			"device %s belongs to Alioth; name another device in the network",
			w.Device,
		)
	case !parent.Ethernet:
		return nil, ofParent(
			w,
			v1alpha1.ParentUnsuitableReason,
			"device %s is not an Ethernet; name another device in the network",
			w.Device,
		)
	}
	link := &Link{LinkID: w.LinkID, Parent: parent.Index, MTU: parent.MTU, Up: parent.Up}
	if w.Type == multinet.VXLAN {
		if failure := p.connect(link, parent, s); failure != nil {
			return nil, failure
		}
	}
	if w.MTU > 0 {
		link.MTU = min(link.MTU, w.MTU)
	}
	if w.Type == multinet.DeviceOnly {
		link = nil
	}
	if !parent.Up {
		return link, ofParent(
			w,
			v1alpha1.ParentDownReason,
			"device %s is down; set it up (ip link set %s up)",
			w.Device,
			w.Device,
		)
	}
	return link, nil
}

// connect gives a VXLAN its addresses, and notes those that the other nodes have to be told.
func (p *Plan) connect(link *Link, parent Device, s State) *multinet.LinkFailure {
	own := ofNode(parent, s.Own)
	known := len(own) > 0
	if !known {
		own = ofDevice(parent)
	}
	refused := func(reason, format string) *multinet.LinkFailure {
		return &multinet.LinkFailure{
			LinkID:  multinet.LinkID{Device: link.Device, Type: link.Type},
			Reason:  reason,
			Message: fmt.Sprintf(format, link.Device),
		}
	}
	if !known && !slices.Contains(s.Listed, link.Device) {
		return refused(
			v1alpha1.VXLANDeviceNotListedReason,
			"device %[1]s has no InternalIP of the node, and multiNetwork.vxlanDevices of the chart does not list %[1]s: "+
				"add it there if no pod can send on it as a node (docs/tenants/isolation.md), or use the device with the node's address",
		)
	}
	if len(own) == 0 {
		return refused(
			v1alpha1.ParentUnaddressedReason,
			"device %s has no IP address, from which the node could send the packets of its VXLANs; give it one, in the same family on all nodes, or use a vlan",
		)
	}
	// At the device with the InternalIP a program keeps pods from it.
	if !known && slices.ContainsFunc(parent.Names, func(name string) bool { return slices.Contains(s.Direct, name) }) {
		return refused(
			v1alpha1.ParentUnsuitableReason,
			"pods of the node have interfaces on device %s itself, and could send packets into its VXLANs as the node; "+
				"delete these pods, use another device for one of the networks, or permit it (multiNetwork.underlayAttachments of the chart)",
		)
	}
	link.Local = own[0]
	link.MTU -= overhead(link.Local)
	link.Peers = s.known(link.Device, ipfamily.Of(link.Local))
	if !known &&
		!slices.ContainsFunc(p.Addresses, func(at multinet.DeviceAddrs) bool { return at.Device == link.Device }) {
		p.Addresses = append(p.Addresses, multinet.DeviceAddrs{Device: link.Device, Addrs: own})
	}
	return nil
}

func ofParent(w Wanted, reason, format string, args ...any) *multinet.LinkFailure {
	return &multinet.LinkFailure{
		LinkID:  multinet.LinkID{Device: w.Device},
		Reason:  reason,
		Message: fmt.Sprintf(format, args...),
	}
}

// ofNode returns the addresses in own that the device has. All nodes know this node by these
// addresses. IPv4 precedes IPv6, so that all nodes choose the same family.
func ofNode(parent Device, own []netip.Addr) []netip.Addr {
	return byFamily(own, func(ip netip.Addr) bool { return slices.Contains(parent.Addrs, ip) })
}

// ofDevice returns the first lasting address of each family that a device has, and others if
// none of them lasts. Link-local ones differ on two devices in their zone alone.
func ofDevice(parent Device) []netip.Addr {
	if lasting := byFamily(parent.Lasting, netip.Addr.IsGlobalUnicast); len(lasting) > 0 {
		return lasting
	}
	return byFamily(parent.Addrs, netip.Addr.IsGlobalUnicast)
}

// byFamily returns the first fitting address of each family, IPv4 before IPv6.
func byFamily(ips []netip.Addr, fits func(netip.Addr) bool) []netip.Addr {
	var all []netip.Addr
	for _, family := range ipfamily.Both {
		if at := slices.IndexFunc(ips, func(ip netip.Addr) bool { return family.Has(ip) && fits(ip) }); at >= 0 {
			all = append(all, ips[at])
		}
	}
	return all
}

func overhead(local netip.Addr) int {
	if local.Is4() {
		return overheadIPv4
	}
	return overheadIPv6
}

// keep returns the devices that are wanted links, by identity. Marked devices that are
// something else by now, second ones, and those that an ended process has not marked, are
// deleted. A link whose parent does not fit any more stays, for it may fit again.
func (p *Plan) keep(
	devices []Device,
	possible map[multinet.LinkID]Link,
	orphan func(multinet.LinkID, Device) bool,
) map[multinet.LinkID]Device {
	held, orphans := map[multinet.LinkID]Device{}, 0
	for _, d := range devices {
		id, ours := Marked(d.Alias)
		if !ours {
			if unfinished(d) {
				p.Delete = append(p.Delete, d)
			}
			continue
		}
		want, wanted := possible[id]
		_, second := held[id]
		switch {
		case wanted && !second && want.is(d):
			held[id] = d
		case wanted:
			p.Delete = append(p.Delete, d)
		case orphan(id, d) && orphans == maxOrphans:
			p.More = true
		case orphan(id, d):
			orphans++
			p.Delete = append(p.Delete, d)
		}
	}
	return held
}

// is reports whether a device is the link, apart from what can be changed.
func (l Link) is(d Device) bool {
	return d.Kind == l.Type && d.VNI == l.VNI && d.Lower == l.Parent && d.Local == l.Local && d.Port == l.Port
}

// name gives each link its name and plans it. One that exists, or that is replaced, keeps
// its name.
func (p *Plan) name(
	wanted []Wanted,
	possible map[multinet.LinkID]Link,
	held map[multinet.LinkID]Device,
	devices []Device,
) {
	kept, taken := map[multinet.LinkID]string{}, map[string]bool{}
	for _, d := range devices {
		for _, name := range d.Names {
			taken[name] = true
		}
	}
	for _, d := range p.Delete {
		id, ours := Marked(d.Alias)
		_, exists := held[id]
		if _, again := possible[id]; ours && again && !exists {
			kept[id] = d.Names[0]
		} else {
			delete(taken, d.Names[0])
		}
	}
	for id, d := range held {
		kept[id] = d.Names[0]
	}
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(w Wanted) bool { _, ok := possible[w.LinkID]; return !ok })
	names := chooseNames(wanted, kept, taken)
	for _, w := range wanted {
		link := possible[w.LinkID]
		link.Name = names[w.LinkID]
		p.Links[w.LinkID] = link
		d, exists := held[w.LinkID]
		switch {
		case !exists:
			p.Make = append(p.Make, link)
		case d.MTU != link.MTU || d.Up != link.Up && link.Up:
			p.Change = append(p.Change, Change{d.Index, link})
		}
	}
}
