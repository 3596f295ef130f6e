// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// protocolName is a protocol of VLANs in documents, "" for others.
func protocolName(ethertype uint16) string {
	switch ethertype {
	case unix.ETH_P_8021Q:
		return document.Protocol8021Q
	case unix.ETH_P_8021AD:
		return document.Protocol8021AD
	default:
		return ""
	}
}

// protocol adds a protocol of VLANs.
func (s *settings) protocol(kind uint16, name string) {
	switch name {
	case document.Protocol8021Q:
		s.add(bigEndian(kind, unix.ETH_P_8021Q))
	case document.Protocol8021AD:
		s.add(bigEndian(kind, unix.ETH_P_8021AD))
	}
}

func showVLAN(v view, l link, i *document.Interface) {
	i.VLAN = &document.VLAN{Base: v.base(l), ID: l.data.Integer(nl.IFLA_VLAN_ID), Protocol: protocolName(l.data.Big(nl.IFLA_VLAN_PROTOCOL))}
}

func vlanData(r request) ([]*nl.RtAttr, error) {
	if r.now != nil || r.want.VLAN == nil {
		return nil, nil
	}
	var s settings
	s.integer(nl.IFLA_VLAN_ID, 2, r.want.VLAN.ID)
	s.protocol(nl.IFLA_VLAN_PROTOCOL, r.want.VLAN.Protocol)
	return s, nil
}

func showVXLAN(v view, l link, i *document.Interface) {
	i.VXLAN = &document.VXLAN{
		Base: v.names[l.data.Value(nl.IFLA_VXLAN_LINK)], ID: l.data.Integer(nl.IFLA_VXLAN_ID), Learning: l.data.Truth(nl.IFLA_VXLAN_LEARNING),
		Local:           word(l.data.Address(nl.IFLA_VXLAN_LOCAL), l.data.Address(nl.IFLA_VXLAN_LOCAL6)),
		Remote:          word(l.data.Address(nl.IFLA_VXLAN_GROUP), l.data.Address(nl.IFLA_VXLAN_GROUP6)),
		DestinationPort: new(int(l.data.Big(nl.IFLA_VXLAN_PORT))),
	}
	if l.elsewhere() {
		i.VXLAN.Base = ""
	}
}

// word is the first of two addresses that there is, "" for none.
func word(four, six netip.Addr) string {
	for _, a := range []netip.Addr{four, six} {
		if a.IsValid() && !a.IsUnspecified() {
			return a.String()
		}
	}
	return ""
}

// defaultPort is the UDP port that IANA assigned to VXLAN; the kernel's own default differs.
const defaultPort = 4789

func vxlanData(r request) ([]*nl.RtAttr, error) {
	want := r.want.VXLAN
	if r.now != nil || want == nil {
		return nil, nil
	}
	var s settings
	s.integer(nl.IFLA_VXLAN_ID, 4, want.ID)
	s.truth(nl.IFLA_VXLAN_LEARNING, want.Learning)
	port := uint16(defaultPort)
	if want.DestinationPort != nil {
		port = uint16(*want.DestinationPort)
	}
	s.add(bigEndian(nl.IFLA_VXLAN_PORT, port))
	if err := s.either("vxlan.local", nl.IFLA_VXLAN_LOCAL, nl.IFLA_VXLAN_LOCAL6, want.Local); err != nil {
		return nil, err
	}
	if err := s.either("vxlan.remote", nl.IFLA_VXLAN_GROUP, nl.IFLA_VXLAN_GROUP6, want.Remote); err != nil {
		return nil, err
	}
	if want.Base != "" {
		base, err := r.named(nl.IFLA_VXLAN_LINK, want.Base)
		if err != nil {
			return nil, fmt.Errorf("vxlan.base-iface: %w", err)
		}
		s.add(base)
	}
	return s, nil
}

// either adds an address, which has an attribute for each family.
func (s *settings) either(path string, four, six uint16, text string) error {
	if text == "" {
		return nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	kind := four
	if a.Is6() {
		kind = six
	}
	s.add(nl.NewRtAttr(int(kind), a.AsSlice()))
	return nil
}

// macvlanModes are bits in the kernel (MACVLAN_MODE_*).
func macvlanModes() map[string]uint32 {
	return map[string]uint32{"private": 1, "vepa": 2, "bridge": 4, "passthru": 8, "source": 16}
}

// notPromiscuous is MACVLAN_FLAG_NOPROMISC.
const notPromiscuous = 1

func showMACVLAN(v view, l link, i *document.Interface) {
	mode, flags := key(macvlanModes(), l.data.Value(nl.IFLA_MACVLAN_MODE)), l.data.Value(nl.IFLA_MACVLAN_FLAGS)
	// The flag has no effect in other modes, and nmstate shows them as promiscuous.
	i.MACVLAN = &document.MACVLAN{Base: v.base(l), Mode: mode, Promiscuous: new(mode != "passthru" || flags&notPromiscuous == 0)}
}

// key returns the word of a number, "" if there is none.
func key(words map[string]uint32, value uint32) string {
	for word, number := range words {
		if number == value {
			return word
		}
	}
	return ""
}

func macvlanData(r request) ([]*nl.RtAttr, error) {
	want := r.want.MACVLAN
	if want == nil {
		return nil, nil
	}
	var s settings
	if want.Mode != "" {
		mode, ok := macvlanModes()[want.Mode]
		if !ok {
			return nil, fmt.Errorf("mac-vlan.mode: %s: want bridge, private, vepa, passthru or source", want.Mode)
		}
		s.add(sized(nl.IFLA_MACVLAN_MODE, 4, mode))
	}
	if want.Promiscuous != nil {
		s.add(sized(nl.IFLA_MACVLAN_FLAGS, 2, bit(!*want.Promiscuous)*notPromiscuous))
	}
	return s, nil
}

// ipvlanModes are IPVLAN_MODE_*.
func ipvlanModes() map[string]uint32 { return map[string]uint32{"l2": 0, "l3": 1, "l3s": 2} }

// Flags of devices of type ipvlan (IPVLAN_F_*).
const (
	ipvlanPrivate = 1
	ipvlanVEPA    = 2
)

func showIPVLAN(v view, l link, i *document.Interface) {
	flags := l.data.Value(nl.IFLA_IPVLAN_FLAG)
	i.IPVLAN = &document.IPVLAN{
		Base: v.base(l), Mode: key(ipvlanModes(), l.data.Value(nl.IFLA_IPVLAN_MODE)),
		Private: new(flags&ipvlanPrivate != 0), VEPA: new(flags&ipvlanVEPA != 0),
	}
}

func ipvlanData(r request) ([]*nl.RtAttr, error) {
	want := r.want.IPVLAN
	if want == nil {
		return nil, nil
	}
	var s settings
	if want.Mode != "" {
		mode, ok := ipvlanModes()[want.Mode]
		if !ok {
			return nil, fmt.Errorf("ipvlan.mode: %s: want l2, l3 or l3s", want.Mode)
		}
		s.add(sized(nl.IFLA_IPVLAN_MODE, 2, mode))
	}
	if want.Private != nil || want.VEPA != nil {
		s.add(sized(nl.IFLA_IPVLAN_FLAG, 2, ipvlanFlags(r)))
	}
	return s, nil
}

// ipvlanFlags are those that a device has, with those that are wanted.
func ipvlanFlags(r request) (flags uint32) {
	if r.now != nil {
		flags = r.now.data.Value(nl.IFLA_IPVLAN_FLAG)
	}
	set := func(flag uint32, value *bool) {
		if value != nil {
			flags = flags&^flag | bit(*value)*flag
		}
	}
	set(ipvlanPrivate, r.want.IPVLAN.Private)
	set(ipvlanVEPA, r.want.IPVLAN.VEPA)
	return flags
}
