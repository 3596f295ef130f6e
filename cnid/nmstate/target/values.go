// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"unicode"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
)

// name takes the interfaces that are not ignored, by their names.
func (r *resolution) name(interfaces []document.Interface) {
	if len(interfaces) > maxInterfaces {
		r.add("interfaces", "%d of them: want at most %d", len(interfaces), maxInterfaces)
		return
	}
	for n, i := range interfaces {
		path := fmt.Sprintf("interfaces[%d]", n)
		r.checkName(path+".name", i.Name)
		r.word(path+".state", i.State, document.Up, document.Down, document.Inactive, document.Absent, document.Ignore)
		r.word(path+".made-by", i.MadeBy, document.MadeByOthers, document.MadeByAlioth)
		other, twice := r.path[i.Name]
		if twice && i.State == document.Absent && r.desired[i.Name].State == document.Absent {
			continue // Its name and an alternative one say the same.
		}
		if twice {
			r.add(path+".name", "%s: %s has that name too", i.Name, other)
			continue
		}
		r.path[i.Name] = path
		if i.State == document.Ignore {
			continue
		}
		if i.State == "" {
			i.State = document.Up
		}
		r.desired[i.Name] = i
		r.order = append(r.order, i.Name)
	}
}

// checkName checks the name of a device (dev_valid_name of the kernel).
func (p *problems) checkName(path, name string) {
	const longest = 15 // IFNAMSIZ
	p.checkText(path, name, longest)
}

// checkText checks a name of at most so many bytes.
func (p *problems) checkText(path, name string, longest int) {
	wrong := func(c rune) bool { return c == '/' || c == ':' || unicode.IsSpace(c) || unicode.IsControl(c) }
	if name == "" || len(name) > longest || name == "." || name == ".." || strings.ContainsFunc(name, wrong) {
		p.add(path, "%q: want 1 to %d bytes without slash, colon and space, and neither . nor ..", name, longest)
	}
}

// checkValues checks single fields of a desired interface. Those of an absent one do not
// matter.
func (p *problems) checkValues(path string, i document.Interface) {
	if i.State == document.Absent {
		return
	}
	p.word(path+".type", i.Type, document.Ethernet, document.VethPair, document.Bond, document.LinuxBridge, document.Dummy,
		document.VLANType, document.VXLANType, document.VRFType, document.MACVLANType, document.IPVLANType, document.Loopback, document.Unknown)
	p.checkMAC(path+".mac-address", i.MACAddress)
	const longestAlias = 255
	if i.Description != nil && len(*i.Description) > longestAlias {
		p.add(path+".description", "%d bytes: want at most %d", len(*i.Description), longestAlias)
	}
	p.checkAltNames(path+".alt-names", i.AltNames)
	if i.Controller != nil && *i.Controller != "" {
		p.checkName(path+".controller", *i.Controller)
	}
	p.checkIP(path+".ipv4", i.IPv4, ipfamily.IPv4)
	p.checkIP(path+".ipv6", i.IPv6, ipfamily.IPv6)
	p.checkWait(path+".wait-ip", i)
	p.checkTypes(path, i)
}

// octets are those of a MAC address of Ethernet.
const octets = 6

func (p *problems) checkMAC(path, mac string) {
	if hardware, err := net.ParseMAC(mac); mac != "" && (err != nil || len(hardware) != octets) {
		p.add(path, "%s: want six octets in hex with colons", mac)
	}
}

// checkTypes checks the sections of the types.
func (p *problems) checkTypes(path string, i document.Interface) {
	if i.Ethernet != nil && i.Ethernet.SRIOV != nil {
		p.checkSRIOV(path+".ethernet.sr-iov", i.Ethernet.SRIOV)
	}
	if i.Veth != nil && i.Veth.Peer != "" {
		p.checkName(path+".veth.peer", i.Veth.Peer)
	}
	if i.Bond != nil {
		p.word(path+".link-aggregation.mode", i.Bond.Mode, document.BondModes...)
		p.checkOptions(path+".link-aggregation", i.Bond)
	}
	if i.Bridge != nil {
		p.checkBridge(path+".bridge", i.Bridge)
	}
	if i.VRF != nil {
		p.uint32(path+".vrf.route-table-id", i.VRF.Table)
	}
	p.checkDerived(path, i)
}

// Limits of VLANs (IEEE 802.1Q), VNIs (RFC 7348) and ports.
const (
	maxVLAN   = 4094
	maxVNI    = 1<<24 - 1
	maxUint16 = 1<<16 - 1
)

// checkDerived checks the sections of interfaces that are derived from another one.
func (p *problems) checkDerived(path string, i document.Interface) {
	if v := i.VLAN; v != nil {
		p.within(path+".vlan.id", v.ID, 0, maxVLAN)
		p.word(path+".vlan.protocol", v.Protocol, document.Protocol8021Q, document.Protocol8021AD)
	}
	if v := i.VXLAN; v != nil {
		p.within(path+".vxlan.id", v.ID, 0, maxVNI)
		p.within(path+".vxlan.destination-port", v.DestinationPort, 1, maxUint16)
		p.address(path+".vxlan.local", v.Local)
		p.address(path+".vxlan.remote", v.Remote)
	}
	if i.MACVLAN != nil {
		p.word(path+".mac-vlan.mode", i.MACVLAN.Mode, "bridge", "private", "vepa", passthru, "source")
	}
	if i.IPVLAN != nil {
		p.word(path+".ipvlan.mode", i.IPVLAN.Mode, "l2", "l3", "l3s")
		if isTrue(i.IPVLAN.Private) && isTrue(i.IPVLAN.VEPA) {
			p.add(path+".ipvlan.vepa", "true: private ports do not reach each other by the switch either: set one of private and vepa")
		}
	}
}

func (p *problems) checkSRIOV(path string, s *document.SRIOV) {
	if s.TotalVFs != nil && *s.TotalVFs < 0 {
		p.add(path+".total-vfs", "%d: want 0 or more", *s.TotalVFs)
	}
	seen := map[int]bool{}
	for n, vf := range s.VFs {
		at := fmt.Sprintf("%s.vfs[%d]", path, n)
		if vf.ID < 0 {
			p.add(at+".id", "%d: want 0 or more", vf.ID)
		}
		if seen[vf.ID] {
			p.add(at+".id", "%d: another one has that id", vf.ID)
		}
		seen[vf.ID] = true
		p.checkVF(at, vf)
	}
}

func (p *problems) checkVF(path string, vf document.VF) {
	const maxPriority, maxRate = 7, 1<<31 - 1
	p.checkMAC(path+".mac-address", vf.MACAddress)
	p.within(path+".vlan-id", vf.VLANID, 0, maxVLAN)
	p.within(path+".qos", vf.QoS, 0, maxPriority)
	p.within(path+".min-tx-rate", vf.MinTxRate, 0, maxRate)
	p.within(path+".max-tx-rate", vf.MaxTxRate, 0, maxRate)
	p.word(path+".vlan-proto", vf.VLANProto, document.Protocol8021Q, document.Protocol8021AD)
	if vf.MinTxRate != nil && vf.MaxTxRate != nil && *vf.MaxTxRate > 0 && *vf.MinTxRate > *vf.MaxTxRate {
		p.add(path+".min-tx-rate", "%d: want at most max-tx-rate, %d", *vf.MinTxRate, *vf.MaxTxRate)
	}
}

func (p *problems) checkBridge(path string, b *document.Bridge) {
	const maxCost, maxPriority = maxUint16, 63
	for n, port := range b.Ports {
		at := fmt.Sprintf("%s.port[%d]", path, n)
		p.within(at+".stp-path-cost", port.PathCost, 1, maxCost)
		p.within(at+".stp-priority", port.Priority, 0, maxPriority)
		if port.VLAN != nil {
			p.checkPortVLAN(at+".vlan", port.VLAN)
		}
	}
	if o := b.Options; o != nil {
		p.within(path+".options.group-forward-mask", o.GroupForwardMask, 0, maxUint16)
		p.within(path+".options.mac-ageing-time", o.MACAgeingTime, 0, maxAgeing)
		p.within(path+".options.vlan-default-pvid", o.VLANDefaultPVID, 0, maxVLAN)
		p.word(path+".options.vlan-protocol", o.VLANProtocol, document.Protocol8021Q, document.Protocol8021AD)
		p.checkSTP(path+".options.stp", o.STP)
		p.checkMulticast(path+".options", o)
	}
}

func (p *problems) checkMulticast(path string, o *document.BridgeOptions) {
	p.word(path+".multicast-router", o.MulticastRouter, document.MulticastRouters...)
	p.checkMAC(path+".group-addr", o.GroupAddress)
	for _, n := range []struct {
		name  string
		value *int
	}{
		{"hash-max", o.HashMax},
		{"multicast-last-member-count", o.MulticastLastMemberCount},
		{"multicast-startup-query-count", o.MulticastStartupQueryCount},
		{"multicast-last-member-interval", o.MulticastLastMemberInterval},
		{"multicast-membership-interval", o.MulticastMembershipInterval},
		{"multicast-querier-interval", o.MulticastQuerierInterval},
		{"multicast-query-interval", o.MulticastQueryInterval},
		{"multicast-query-response-interval", o.MulticastQueryResponseInterval},
		{"multicast-startup-query-interval", o.MulticastStartupQueryInterval},
	} {
		p.within(path+"."+n.name, n.value, 0, maxInt32)
	}
}

// maxAgeing is in seconds; the kernel counts hundredths of them in 32 bits.
const maxAgeing = (1<<32 - 1) / 100

// checkSTP checks times of the spanning tree protocol (br_private_stp.h of Linux).
func (p *problems) checkSTP(path string, s *document.STP) {
	if s == nil {
		return
	}
	p.within(path+".forward-delay", s.ForwardDelay, 2, 30)
	p.within(path+".hello-time", s.HelloTime, 1, 10)
	p.within(path+".max-age", s.MaxAge, 6, 40)
	p.within(path+".priority", s.Priority, 0, maxUint16)
}

// checkSections refuses sections of other types than the interface's own.
func (p *problems) checkSections(path string, want document.Interface, kind string) {
	sections := []struct {
		name  string
		there bool
		kinds []string
	}{
		{"ethernet", want.Ethernet != nil, []string{document.Ethernet, document.VethPair}},
		{"veth", want.Veth != nil, []string{document.VethPair}},
		{"link-aggregation", want.Bond != nil, []string{document.Bond}},
		{"bridge", want.Bridge != nil, []string{document.LinuxBridge}},
		{"vlan", want.VLAN != nil, []string{document.VLANType}},
		{"vxlan", want.VXLAN != nil, []string{document.VXLANType}},
		{"vrf", want.VRF != nil, []string{document.VRFType}},
		{"mac-vlan", want.MACVLAN != nil, []string{document.MACVLANType}},
		{"ipvlan", want.IPVLAN != nil, []string{document.IPVLANType}},
	}
	for _, s := range sections {
		if s.there && !slices.Contains(s.kinds, kind) {
			p.add(path+"."+s.name, "%s is of type %s, which has no such section", want.Name, kind)
		}
	}
}
