// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// Virtual reports whether the engine makes and removes interfaces of a type.
func Virtual(kind string) bool {
	switch kind {
	case document.VethPair, document.Bond, document.LinuxBridge, document.Dummy, document.VLANType,
		document.VXLANType, document.VRFType, document.MACVLANType, document.IPVLANType:
		return true
	default:
		return false
	}
}

// Physical reports whether interfaces of a type exist whatever a document says: those
// with hardware, and those that the engine cannot make.
func Physical(kind string) bool {
	return kind == document.Ethernet || kind == document.Loopback || kind == document.Unknown
}

// SameClass reports whether two types are one for nmstate, which takes one end of a pair for
// ethernet.
func SameClass(a, b string) bool {
	class := func(kind string) string {
		if kind == document.VethPair {
			return document.Ethernet
		}
		return kind
	}
	return class(a) == class(b)
}

// Recreated reports whether a change between two states requires a new interface, because the
// kernel does not change one of the settings. A nil or "" in want does not matter. Sources:
// vlan_changelink, vxlan_changelink, vrf_newlink, macvlan_changelink, ipvlan_nl_changelink and
// bond_opts of Linux 6.12.
func Recreated(now, want document.Interface) bool {
	if !Virtual(now.Type) {
		return false
	}
	if !SameClass(now.Type, want.Type) {
		return want.Type != ""
	}
	if base := want.Base(); base != "" && base != now.Base() {
		return true
	}
	return pairRecreated(now.Veth, want.Veth) || bondRecreated(now.Bond, want.Bond) ||
		vlanRecreated(now.VLAN, want.VLAN) || vxlanRecreated(now.VXLAN, want.VXLAN) || vrfRecreated(now.VRF, want.VRF) ||
		macvlanRecreated(now.MACVLAN, want.MACVLAN)
}

func pairRecreated(now, want *document.Veth) bool {
	return now != nil && want != nil && differsWord(now.Peer, want.Peer)
}

func vrfRecreated(now, want *document.VRF) bool {
	return now != nil && want != nil && Differs(now.Table, want.Table)
}

// Differs reports whether a value is wanted and is not there.
func Differs[T comparable](now, want *T) bool {
	return want != nil && (now == nil || *now != *want)
}

func differsWord(now, want string) bool { return want != "" && now != want }

// bondRecreated: a bond with ports has neither another mode nor another fail_over_mac.
func bondRecreated(now, want *document.LinkAggregation) bool {
	if now == nil || want == nil {
		return false
	}
	return differsWord(now.Mode, want.Mode) || optionDiffers(now, want, FailOverMAC) || losesPrimary(now, want) ||
		losesActorSystem(now, want)
}

// losesActorSystem: the driver takes no address that means none.
func losesActorSystem(now, want *document.LinkAggregation) bool {
	return optionDiffers(now, want, actorSystem) && Option(actorSystem, want.Options[actorSystem]) == ""
}

// losesPrimary: a bond forgets its primary port only together with that port. A state that
// was without one has the port, and not the option.
func losesPrimary(now, want *document.LinkAggregation) bool {
	is, shall := Option("primary", now.Options["primary"]), Option("primary", want.Options["primary"])
	return is != "" && shall == "" && want.Options != nil && slices.Contains(want.Ports, is)
}

func optionDiffers(now, want *document.LinkAggregation, name string) bool {
	value, ok := want.Options[name]
	return ok && Option(name, value) != Option(name, now.Options[name])
}

// StopsToChange reports whether an interface has to be down while its settings change from
// one state to another.
func StopsToChange(now, want document.Interface) bool {
	if now.Bond == nil || want.Bond == nil {
		return false
	}
	for _, name := range []string{"lacp_rate", "lacp_active", "ad_select", "ad_user_port_key", actorSystem, "tlb_dynamic_lb"} {
		if optionDiffers(now.Bond, want.Bond, name) {
			return true
		}
	}
	return false
}

func vlanRecreated(now, want *document.VLAN) bool {
	if now == nil || want == nil {
		return false
	}
	return Differs(now.ID, want.ID) || differsWord(protocol(now), protocol(want))
}

// protocol returns the protocol of a VLAN; the kernel's default is 802.1q.
func protocol(v *document.VLAN) string {
	if v.Protocol == "" {
		return document.Protocol8021Q
	}
	return v.Protocol
}

func vxlanRecreated(now, want *document.VXLAN) bool {
	if now == nil || want == nil {
		return false
	}
	return Differs(now.ID, want.ID) || Differs(now.Learning, want.Learning) ||
		Differs(now.DestinationPort, want.DestinationPort) ||
		// Without an ID, a base or an address the tunnel is incomplete: a complete tunnel has an
		// ID.
		want.ID != nil && (now.Base != want.Base || now.Local != want.Local || now.Remote != want.Remote)
}

// Passthru is the mode of a MAC-VLAN that has its base for itself. It alone may leave the base
// without promiscuous mode.
const Passthru = "passthru"

// macvlanRecreated: no other mode becomes passthru, nor passthru another one.
func macvlanRecreated(now, want *document.MACVLAN) bool {
	if now == nil || want == nil {
		return false
	}
	return differsWord(now.Mode, want.Mode) && (now.Mode == Passthru || want.Mode == Passthru)
}
