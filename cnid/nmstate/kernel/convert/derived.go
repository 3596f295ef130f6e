// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

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
func (s *Settings) protocol(kind uint16, name string) {
	switch name {
	case document.Protocol8021Q:
		s.Add(bigEndian(kind, unix.ETH_P_8021Q))
	case document.Protocol8021AD:
		s.Add(bigEndian(kind, unix.ETH_P_8021AD))
	}
}

func showVLAN(v View, l Link, i *document.Interface) {
	i.VLAN = &document.VLAN{
		Base:     v.base(l),
		ID:       l.Data.Integer(nl.IFLA_VLAN_ID),
		Protocol: protocolName(l.Data.Big(nl.IFLA_VLAN_PROTOCOL)),
	}
}

func vlanData(r Request) ([]*nl.RtAttr, error) {
	if r.Now != nil || r.Want.VLAN == nil {
		return nil, nil
	}
	var s Settings
	s.Integer(nl.IFLA_VLAN_ID, 2, r.Want.VLAN.ID)
	s.protocol(nl.IFLA_VLAN_PROTOCOL, r.Want.VLAN.Protocol)
	return s, nil
}

func showVXLAN(v View, l Link, i *document.Interface) {
	i.VXLAN = &document.VXLAN{
		Base: v.Names[l.Data.Value(nl.IFLA_VXLAN_LINK)], ID: l.Data.Integer(nl.IFLA_VXLAN_ID),
		Learning:        l.Data.Truth(nl.IFLA_VXLAN_LEARNING),
		Local:           word(l.Data.Address(nl.IFLA_VXLAN_LOCAL), l.Data.Address(nl.IFLA_VXLAN_LOCAL6)),
		Remote:          word(l.Data.Address(nl.IFLA_VXLAN_GROUP), l.Data.Address(nl.IFLA_VXLAN_GROUP6)),
		DestinationPort: new(int(l.Data.Big(nl.IFLA_VXLAN_PORT))),
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

func vxlanData(r Request) ([]*nl.RtAttr, error) {
	want := r.Want.VXLAN
	if r.Now != nil || want == nil {
		return nil, nil
	}
	var s Settings
	s.Integer(nl.IFLA_VXLAN_ID, 4, want.ID)
	s.Truth(nl.IFLA_VXLAN_LEARNING, want.Learning)
	port := uint16(defaultPort)
	if want.DestinationPort != nil {
		port = uint16(*want.DestinationPort)
	}
	s.Add(bigEndian(nl.IFLA_VXLAN_PORT, port))
	if err := s.either("vxlan.local", nl.IFLA_VXLAN_LOCAL, nl.IFLA_VXLAN_LOCAL6, want.Local); err != nil {
		return nil, err
	}
	if err := s.either("vxlan.remote", nl.IFLA_VXLAN_GROUP, nl.IFLA_VXLAN_GROUP6, want.Remote); err != nil {
		return nil, err
	}
	if want.Base != "" {
		base, err := r.Named(nl.IFLA_VXLAN_LINK, want.Base)
		if err != nil {
			return nil, fmt.Errorf("vxlan.base-iface: %w", err)
		}
		s.Add(base)
	}
	return s, nil
}

// either adds an address, which has an attribute for each family.
func (s *Settings) either(path string, four, six uint16, text string) error {
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
	s.Add(nl.NewRtAttr(int(kind), a.AsSlice()))
	return nil
}

// macvlanModes are bits in the kernel (MACVLAN_MODE_*).
func macvlanModes() map[string]uint32 {
	return map[string]uint32{"private": 1, "vepa": 2, "bridge": 4, "passthru": 8, "source": 16}
}

// notPromiscuous is MACVLAN_FLAG_NOPROMISC.
const notPromiscuous = 1

func showMACVLAN(v View, l Link, i *document.Interface) {
	mode, flags := key(macvlanModes(), l.Data.Value(nl.IFLA_MACVLAN_MODE)), l.Data.Value(nl.IFLA_MACVLAN_FLAGS)
	// The flag has no effect in other modes, and nmstate shows them as promiscuous.
	i.MACVLAN = &document.MACVLAN{
		Base:        v.base(l),
		Mode:        mode,
		Promiscuous: new(mode != "passthru" || flags&notPromiscuous == 0),
	}
}

// key returns the word of a number, "" for a number without a word.
func key(words map[string]uint32, value uint32) string {
	for word, number := range words {
		if number == value {
			return word
		}
	}
	return ""
}

func macvlanData(r Request) ([]*nl.RtAttr, error) {
	want := r.Want.MACVLAN
	if want == nil {
		return nil, nil
	}
	var s Settings
	if want.Mode != "" {
		mode, ok := macvlanModes()[want.Mode]
		if !ok {
			return nil, fmt.Errorf("mac-vlan.mode: %s: want bridge, private, vepa, passthru or source", want.Mode)
		}
		s.Add(Sized(nl.IFLA_MACVLAN_MODE, 4, mode))
	}
	if want.Promiscuous != nil {
		s.Add(Sized(nl.IFLA_MACVLAN_FLAGS, 2, Bit(!*want.Promiscuous)*notPromiscuous))
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

func showIPVLAN(v View, l Link, i *document.Interface) {
	flags := l.Data.Value(nl.IFLA_IPVLAN_FLAG)
	i.IPVLAN = &document.IPVLAN{
		Base: v.base(l), Mode: key(ipvlanModes(), l.Data.Value(nl.IFLA_IPVLAN_MODE)),
		Private: new(flags&ipvlanPrivate != 0), VEPA: new(flags&ipvlanVEPA != 0),
	}
}

func ipvlanData(r Request) ([]*nl.RtAttr, error) {
	want := r.Want.IPVLAN
	if want == nil {
		return nil, nil
	}
	var s Settings
	if want.Mode != "" {
		mode, ok := ipvlanModes()[want.Mode]
		if !ok {
			return nil, fmt.Errorf("ipvlan.mode: %s: want l2, l3 or l3s", want.Mode)
		}
		s.Add(Sized(nl.IFLA_IPVLAN_MODE, 2, mode))
	}
	if want.Private != nil || want.VEPA != nil {
		s.Add(Sized(nl.IFLA_IPVLAN_FLAG, 2, ipvlanFlags(r)))
	}
	return s, nil
}

// ipvlanFlags are those that a device has, with those that are wanted.
func ipvlanFlags(r Request) (flags uint32) {
	if r.Now != nil {
		flags = r.Now.Data.Value(nl.IFLA_IPVLAN_FLAG)
	}
	set := func(flag uint32, value *bool) {
		if value != nil {
			flags = flags&^flag | Bit(*value)*flag
		}
	}
	set(ipvlanPrivate, r.Want.IPVLAN.Private)
	set(ipvlanVEPA, r.Want.IPVLAN.VEPA)
	return flags
}
