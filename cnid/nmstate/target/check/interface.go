// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"unicode"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// Name checks the name of a device (dev_valid_name of the kernel).
func (p *Problems) Name(path, name string) {
	const longest = 15 // IFNAMSIZ
	p.checkText(path, name, longest)
}

// checkText checks a name of at most so many bytes.
func (p *Problems) checkText(path, name string, longest int) {
	wrong := func(c rune) bool { return c == '/' || c == ':' || unicode.IsSpace(c) || unicode.IsControl(c) }
	if name == "" || len(name) > longest || name == "." || name == ".." || strings.ContainsFunc(name, wrong) {
		p.Add(path, "%q: want 1 to %d bytes without slash, colon and space, and neither . nor ..", name, longest)
	}
}

// Values checks single fields of a desired interface. The fields of an absent interface do not
// matter.
func (p *Problems) Values(path string, i document.Interface) {
	if i.State == document.Absent {
		return
	}
	p.Word(
		path+".type",
		i.Type,
		document.Ethernet,
		document.VethPair,
		document.Bond,
		document.LinuxBridge,
		document.Dummy,
		document.VLANType,
		document.VXLANType,
		document.VRFType,
		document.MACVLANType,
		document.IPVLANType,
		document.Loopback,
		document.Unknown,
	)
	p.checkMAC(path+".mac-address", i.MACAddress)
	const longestAlias = 255
	if i.Description != nil && len(*i.Description) > longestAlias {
		p.Add(path+".description", "%d bytes: want at most %d", len(*i.Description), longestAlias)
	}
	p.checkAltNames(path+".alt-names", i.AltNames)
	if i.Controller != nil && *i.Controller != "" {
		p.Name(path+".controller", *i.Controller)
	}
	p.checkIP(path+".ipv4", i.IPv4, ipfamily.IPv4)
	p.checkIP(path+".ipv6", i.IPv6, ipfamily.IPv6)
	p.checkWait(path+".wait-ip", i)
	p.checkTypes(path, i)
}

func (p *Problems) checkMAC(path, mac string) {
	const octets = 6
	if hardware, err := net.ParseMAC(mac); mac != "" && (err != nil || len(hardware) != octets) {
		p.Add(path, "%s: want six octets in hex with colons", mac)
	}
}

// checkTypes checks the sections of the types.
func (p *Problems) checkTypes(path string, i document.Interface) {
	if i.Ethernet != nil && i.Ethernet.SRIOV != nil {
		p.checkSRIOV(path+".ethernet.sr-iov", i.Ethernet.SRIOV)
	}
	if i.Veth != nil && i.Veth.Peer != "" {
		p.Name(path+".veth.peer", i.Veth.Peer)
	}
	if i.Bond != nil {
		p.Word(path+".link-aggregation.mode", i.Bond.Mode, document.BondModes...)
		p.checkOptions(path+".link-aggregation", i.Bond)
	}
	if i.Bridge != nil {
		p.checkBridge(path+".bridge", i.Bridge)
	}
	if i.VRF != nil {
		p.Uint32(path+".vrf.route-table-id", i.VRF.Table)
	}
	p.checkDerived(path, i)
}

// Limits of VLANs (IEEE 802.1Q) and VNIs (RFC 7348).
const (
	maxVLAN = 4094
	maxVNI  = 1<<24 - 1
)

// checkDerived checks the sections of interfaces that are derived from another one.
func (p *Problems) checkDerived(path string, i document.Interface) {
	if v := i.VLAN; v != nil {
		p.Within(path+".vlan.id", v.ID, 0, maxVLAN)
		p.Word(path+".vlan.protocol", v.Protocol, document.Protocol8021Q, document.Protocol8021AD)
	}
	if v := i.VXLAN; v != nil {
		p.Within(path+".vxlan.id", v.ID, 0, maxVNI)
		p.Within(path+".vxlan.destination-port", v.DestinationPort, 1, math.MaxUint16)
		p.Address(path+".vxlan.local", v.Local)
		p.Address(path+".vxlan.remote", v.Remote)
	}
	if i.MACVLAN != nil {
		p.Word(path+".mac-vlan.mode", i.MACVLAN.Mode, "bridge", "private", "vepa", compare.Passthru, "source")
	}
	if i.IPVLAN != nil {
		p.Word(path+".ipvlan.mode", i.IPVLAN.Mode, "l2", "l3", "l3s")
		if compare.IsTrue(i.IPVLAN.Private) && compare.IsTrue(i.IPVLAN.VEPA) {
			p.Add(
				path+".ipvlan.vepa",
				"true: private ports do not reach each other by the switch either: set one of private and vepa",
			)
		}
	}
}

func (p *Problems) checkSRIOV(path string, s *document.SRIOV) {
	if s.TotalVFs != nil && *s.TotalVFs < 0 {
		p.Add(path+".total-vfs", "%d: want 0 or more", *s.TotalVFs)
	}
	seen := map[int]bool{}
	for n, vf := range s.VFs {
		at := fmt.Sprintf("%s.vfs[%d]", path, n)
		if vf.ID < 0 {
			p.Add(at+".id", "%d: want 0 or more", vf.ID)
		}
		if seen[vf.ID] {
			p.Add(at+".id", "%d: another one has that id", vf.ID)
		}
		seen[vf.ID] = true
		p.checkVF(at, vf)
	}
}

func (p *Problems) checkVF(path string, vf document.VF) {
	const maxPriority, maxRate = 7, 1<<31 - 1
	p.checkMAC(path+".mac-address", vf.MACAddress)
	p.Within(path+".vlan-id", vf.VLANID, 0, maxVLAN)
	p.Within(path+".qos", vf.QoS, 0, maxPriority)
	p.Within(path+".min-tx-rate", vf.MinTxRate, 0, maxRate)
	p.Within(path+".max-tx-rate", vf.MaxTxRate, 0, maxRate)
	p.Word(path+".vlan-proto", vf.VLANProto, document.Protocol8021Q, document.Protocol8021AD)
	if vf.MinTxRate != nil && vf.MaxTxRate != nil && *vf.MaxTxRate > 0 && *vf.MinTxRate > *vf.MaxTxRate {
		p.Add(path+".min-tx-rate", "%d: want at most max-tx-rate, %d", *vf.MinTxRate, *vf.MaxTxRate)
	}
}

// Sections refuses sections of other types than the interface's own.
func (p *Problems) Sections(path string, want document.Interface, kind string) {
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
			p.Add(path+"."+s.name, "%s is of type %s, which has no such section", want.Name, kind)
		}
	}
}

func (p *Problems) checkAltNames(path string, list []document.AltName) {
	seen := map[string]bool{}
	for n, a := range list {
		at := fmt.Sprintf("%s[%d]", path, n)
		p.checkText(at+".name", a.Name, document.LongestAltName)
		p.Word(at+".state", a.State, document.Absent)
		if seen[a.Name] {
			p.Add(at+".name", "%s: it is in the list twice", a.Name)
		}
		seen[a.Name] = true
	}
}
