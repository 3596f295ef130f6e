// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// Kind is a type of virtual devices.
type Kind struct {
	// name is the type in documents, and Driver is the type in the kernel.
	name, Driver string
	// Module has the driver, and Option builds it (without CONFIG_).
	Module, Option string
	// show fills in the section of the type.
	show func(View, Link, *document.Interface)
	// Data returns the attributes of the driver for a request.
	Data func(Request) ([]*nl.RtAttr, error)
}

// kinds are those that the engine knows.
func kinds() []Kind {
	return []Kind{
		{document.VethPair, "veth", "veth", "VETH", showVeth, vethData},
		{document.Bond, "bond", "bonding", "BONDING", showBond, bondData},
		{document.LinuxBridge, "bridge", "bridge", "BRIDGE", showBridge, bridgeData},
		{document.Dummy, "dummy", "dummy", "DUMMY", func(View, Link, *document.Interface) {}, noData},
		{document.VLANType, "vlan", "8021q", "VLAN_8021Q", showVLAN, vlanData},
		{document.VXLANType, "vxlan", "vxlan", "VXLAN", showVXLAN, vxlanData},
		{document.VRFType, "vrf", "vrf", "NET_VRF", showVRF, vrfData},
		{document.MACVLANType, "macvlan", "macvlan", "MACVLAN", showMACVLAN, macvlanData},
		{document.IPVLANType, "ipvlan", "ipvlan", "IPVLAN", showIPVLAN, ipvlanData},
	}
}

// KindByDriver returns the type with a driver of the kernel.
func KindByDriver(driver string) (Kind, bool) {
	return kindWith(func(k Kind) bool { return k.Driver == driver })
}

// KindByName returns the type with a name in documents.
func KindByName(name string) (Kind, bool) {
	return kindWith(func(k Kind) bool { return k.name == name })
}

func kindWith(is func(Kind) bool) (Kind, bool) {
	for _, k := range kinds() {
		if is(k) {
			return k, true
		}
	}
	return Kind{}, false
}

// Request is for a device that is made, or changes.
type Request struct {
	Want document.Interface
	// Now is the device that changes, nil for one that is made.
	Now *Link
	// Named makes an attribute with the index of the device of a name.
	Named func(attribute uint16, name string) (*nl.RtAttr, error)
}

func noData(Request) ([]*nl.RtAttr, error) { return nil, nil }

// Info returns the attribute with the driver's own ones.
func (k Kind) Info(r Request) (*nl.RtAttr, error) {
	data, err := k.Data(r)
	if err != nil {
		return nil, err
	}
	list := []*nl.RtAttr{ZeroEnded(nl.IFLA_INFO_KIND, k.Driver)}
	if len(data) > 0 {
		list = append(list, Nested(nl.IFLA_INFO_DATA, data))
	}
	return Nested(unix.IFLA_LINKINFO, list), nil
}

func showVeth(v View, l Link, i *document.Interface) { i.Veth = &document.Veth{Peer: v.base(l)} }

func vethData(r Request) ([]*nl.RtAttr, error) {
	const peer = 1 // VETH_INFO_PEER
	if r.Now != nil || r.Want.Veth == nil || r.Want.Veth.Peer == "" {
		return nil, nil
	}
	// The message of a device is in the attribute, with its header.
	end := nl.NewRtAttr(peer, nl.NewIfInfomsg(unix.AF_UNSPEC).Serialize())
	end.AddChild(ZeroEnded(unix.IFLA_IFNAME, r.Want.Veth.Peer))
	return []*nl.RtAttr{end}, nil
}

func showVRF(v View, l Link, i *document.Interface) {
	i.VRF = &document.VRF{Ports: v.portNames(l), Table: new(int64(l.Data.Value(nl.IFLA_VRF_TABLE)))}
}

func vrfData(r Request) ([]*nl.RtAttr, error) {
	if r.Now != nil || r.Want.VRF == nil || r.Want.VRF.Table == nil {
		return nil, nil
	}
	return []*nl.RtAttr{Sized(nl.IFLA_VRF_TABLE, 4, uint32(*r.Want.VRF.Table))}, nil
}
