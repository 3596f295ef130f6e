// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

// Types of interfaces. Ethernet is any device with hardware, or a device that looks like one.
const (
	Ethernet    = "ethernet"
	VethPair    = "veth"
	Bond        = "bond"
	LinuxBridge = "linux-bridge"
	Dummy       = "dummy"
	VLANType    = "vlan"
	VXLANType   = "vxlan"
	VRFType     = "vrf"
	MACVLANType = "mac-vlan"
	IPVLANType  = "ipvlan"
	Loopback    = "loopback"
	// Unknown is the type of interfaces that the engine shows and does not make.
	Unknown = "unknown"
)

// States of interfaces, routes and rules.
const (
	// Up is the default of a desired interface.
	Up = "up"
	// Down keeps the interface, without addresses; a virtual one is removed.
	Down = "down"
	// Inactive sets a virtual interface down and keeps it. A missing interface is made if the
	// document has its type, and is left out otherwise. The state is an extension of Alioth
	// for the undo of policies; nmstate lacks it.
	Inactive = "inactive"
	// Absent removes a virtual interface, and all settings of another one.
	Absent = "absent"
	// Ignore leaves the interface as it is, whatever else the document says of it.
	Ignore = "ignore"
)

// Values of MadeBy.
const (
	// MadeByOthers leaves the interface out while it is missing: it is never made.
	MadeByOthers = "others"
	// MadeByAlioth leaves the interface as it is unless Alioth has made it.
	MadeByAlioth = "alioth"
)

// Interface is a network device of the host.
type Interface struct {
	Name  string `json:"name"`
	Type  string `json:"type,omitempty"`
	State string `json:"state,omitempty"`
	// MadeBy selects the maker of the interface that the document describes: "" for anybody,
	// MadeByOthers or MadeByAlioth. It is an extension of Alioth for policies: for policies that
	// match interfaces, and for the undo of all others.
	MadeBy string `json:"made-by,omitempty"`
	// Description is the device's alias (at most 255 bytes).
	Description *string `json:"description,omitempty"`
	// AltNames are alternative names, of at most 127 bytes. Names that a desired state lacks
	// stay on the interface.
	AltNames []AltName `json:"alt-names,omitzero"`
	// MACAddress is the Ethernet address, six octets in upper-case hex with colons.
	MACAddress string `json:"mac-address,omitempty"`
	// CopyMACFrom is the interface that gives its MAC address.
	CopyMACFrom string `json:"copy-mac-from,omitempty"`
	// PermanentMACAddress is the hardware's own, read-only.
	PermanentMACAddress string `json:"permanent-mac-address,omitempty"`
	// MTU is in bytes; MinMTU and MaxMTU are the device's limits, read-only.
	MTU    *int `json:"mtu,omitempty"`
	MinMTU *int `json:"min-mtu,omitempty"`
	MaxMTU *int `json:"max-mtu,omitempty"`
	// Controller is the bond, bridge or VRF that the interface is a port of, "" none.
	Controller *string `json:"controller,omitempty"`
	// AcceptAllMACAddresses is the promiscuous mode.
	AcceptAllMACAddresses *bool `json:"accept-all-mac-addresses,omitempty"`
	IPv4                  *IP   `json:"ipv4,omitempty"`
	IPv6                  *IP   `json:"ipv6,omitempty"`
	// WaitIP names the families that need an address before a change is complete, for example
	// WaitBoth. It is part of desired states alone.
	WaitIP string `json:"wait-ip,omitempty"`

	Ethernet *EthernetConfig  `json:"ethernet,omitempty"`
	Veth     *Veth            `json:"veth,omitempty"`
	Bond     *LinkAggregation `json:"link-aggregation,omitempty" alias:"bond"`
	Bridge   *Bridge          `json:"bridge,omitempty"`
	VLAN     *VLAN            `json:"vlan,omitempty"`
	VXLAN    *VXLAN           `json:"vxlan,omitempty"`
	VRF      *VRF             `json:"vrf,omitempty"`
	MACVLAN  *MACVLAN         `json:"mac-vlan,omitempty"`
	IPVLAN   *IPVLAN          `json:"ipvlan,omitempty"`
}

// EthernetConfig has settings that only hardware has.
type EthernetConfig struct {
	SRIOV *SRIOV `json:"sr-iov,omitempty"`
}

// SRIOV are the virtual functions of a physical function.
type SRIOV struct {
	// TotalVFs is the number of virtual functions.
	TotalVFs *int `json:"total-vfs,omitempty"`
	// DriversAutoprobe: the kernel looks for drivers of new ones.
	DriversAutoprobe *bool `json:"drivers-autoprobe,omitempty"`
	VFs              []VF  `json:"vfs,omitzero"`
}

// VF is a virtual function. Rates are in Mbit/s; 0 sets no limit.
type VF struct {
	ID         int    `json:"id"`
	MACAddress string `json:"mac-address,omitempty"`
	SpoofCheck *bool  `json:"spoof-check,omitempty"`
	Trust      *bool  `json:"trust,omitempty"`
	MinTxRate  *int   `json:"min-tx-rate,omitempty"`
	MaxTxRate  *int   `json:"max-tx-rate,omitempty"`
	VLANID     *int   `json:"vlan-id,omitempty"`
	QoS        *int   `json:"qos,omitempty"`
	VLANProto  string `json:"vlan-proto,omitempty"`
}

// Veth is one end of a pair.
type Veth struct {
	Peer string `json:"peer"`
}

// LinkAggregation is a bond.
type LinkAggregation struct {
	// Mode is one of BondModes.
	Mode string `json:"mode,omitempty"`
	// Ports are names of interfaces: nil keeps the present ports.
	Ports []string `json:"port,omitzero" alias:"ports"`
	// Options of the kernel's bonding driver by their names there, for example miimon or
	// lacp_rate. Values are numbers, or the driver's words.
	Options map[string]any `json:"options,omitempty"`
}

// BondModes are the modes of the kernel's bonding driver.
var BondModes = []string{
	"balance-rr",
	"active-backup",
	"balance-xor",
	"broadcast",
	"802.3ad",
	"balance-tlb",
	"balance-alb",
}

// Bridge is a bridge of the kernel.
type Bridge struct {
	// Ports are unique by name: nil keeps the present ports.
	Ports   []BridgePort   `json:"port,omitzero" alias:"ports"`
	Options *BridgeOptions `json:"options,omitempty"`
}

// BridgePort is an interface of a bridge.
type BridgePort struct {
	Name string `json:"name"`
	// Hairpin sends frames back to the port that received them.
	Hairpin *bool `json:"stp-hairpin-mode,omitempty"`
	// PathCost is 1 to 65535, Priority 0 to 63 (IEEE 802.1D).
	PathCost *int `json:"stp-path-cost,omitempty"`
	Priority *int `json:"stp-priority,omitempty"`
	// VLAN turns on the bridge's filter. nil keeps the present setting. Where no port has VLANs any
	// longer, an empty one turns the filter off.
	VLAN *PortVLAN `json:"vlan,omitempty"`
}

// PortVLAN has the VLANs of a port.
type PortVLAN struct {
	// Mode is PortAccess or PortTrunk.
	Mode string `json:"mode,omitempty"`
	// Tag is the VLAN of untagged frames, 1 to 4094.
	Tag *int `json:"tag,omitempty"`
	// EnableNative: a trunk takes untagged frames for frames of the VLAN Tag.
	EnableNative *bool `json:"enable-native,omitempty"`
	// TrunkTags are the VLANs that a trunk carries.
	TrunkTags []TrunkTag `json:"trunk-tags,omitzero"`
}

// Modes of a port of a bridge.
const (
	PortAccess = "access"
	PortTrunk  = "trunk"
)

// TrunkTag is one VLAN or a range of them.
type TrunkTag struct {
	ID    *int      `json:"id,omitempty"`
	Range *TagRange `json:"id-range,omitempty"`
}

// TagRange includes both ends.
type TagRange struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// BridgeOptions are settings of a bridge.
type BridgeOptions struct {
	STP *STP `json:"stp,omitempty"`
	// MACAgeingTime is in seconds.
	MACAgeingTime *int `json:"mac-ageing-time,omitempty"`
	// GroupForwardMask is 0 to 65535.
	GroupForwardMask *int `json:"group-forward-mask,omitempty" alias:"group-fwd-mask"`
	// MulticastSnooping learns which ports have listeners of a group.
	MulticastSnooping *bool `json:"multicast-snooping,omitempty"`
	// MulticastRouter is one of MulticastRouters, MulticastQuerier sends queries, and
	// MulticastQueryUseIfaddr from the bridge's own address.
	MulticastRouter         string `json:"multicast-router,omitempty"`
	MulticastQuerier        *bool  `json:"multicast-querier,omitempty"`
	MulticastQueryUseIfaddr *bool  `json:"multicast-query-use-ifaddr,omitempty"`
	// Numbers of queries, and intervals in hundredths of a second.
	MulticastLastMemberCount       *int `json:"multicast-last-member-count,omitempty"`
	MulticastStartupQueryCount     *int `json:"multicast-startup-query-count,omitempty"`
	MulticastLastMemberInterval    *int `json:"multicast-last-member-interval,omitempty"`
	MulticastMembershipInterval    *int `json:"multicast-membership-interval,omitempty"`
	MulticastQuerierInterval       *int `json:"multicast-querier-interval,omitempty"`
	MulticastQueryInterval         *int `json:"multicast-query-interval,omitempty"`
	MulticastQueryResponseInterval *int `json:"multicast-query-response-interval,omitempty"`
	MulticastStartupQueryInterval  *int `json:"multicast-startup-query-interval,omitempty"`
	// HashMax is the maximum number of multicast groups that the bridge learns.
	HashMax *int `json:"hash-max,omitempty"`
	// GroupAddress is the destination of frames of the spanning tree protocol.
	GroupAddress string `json:"group-addr,omitempty"`
	// VLANProtocol is Protocol8021Q or Protocol8021AD.
	VLANProtocol string `json:"vlan-protocol,omitempty"`
	// VLANDefaultPVID is the VLAN of untagged frames of new ports, 0 to 4094.
	VLANDefaultPVID *int `json:"vlan-default-pvid,omitempty"`
}

// MulticastRouters say whether a bridge sends multicast frames to routers, by the kernel's numbers.
var MulticastRouters = []string{"disabled", "auto", "enabled"}

// STP is the spanning tree protocol of a bridge. Times are in seconds.
type STP struct {
	Enabled      *bool `json:"enabled,omitempty"`
	ForwardDelay *int  `json:"forward-delay,omitempty"`
	HelloTime    *int  `json:"hello-time,omitempty"`
	MaxAge       *int  `json:"max-age,omitempty"`
	Priority     *int  `json:"priority,omitempty"`
}

// VLAN is an interface with the frames of one VLAN of its base interface.
type VLAN struct {
	Base string `json:"base-iface,omitempty"`
	// ID is 0 to 4094; frames with 0 have only a priority.
	ID *int `json:"id,omitempty"`
	// Protocol is Protocol8021Q (the default) or Protocol8021AD.
	Protocol string `json:"protocol,omitempty"`
}

// Protocols of VLANs.
const (
	Protocol8021Q  = "802.1q"
	Protocol8021AD = "802.1ad"
)

// VXLAN is a tunnel (RFC 7348).
type VXLAN struct {
	// Base is the interface of the outer packets; with "" the routes decide.
	Base string `json:"base-iface,omitempty"`
	// ID is the VNI, 0 to 2^24-1.
	ID *int `json:"id,omitempty"`
	// Learning takes addresses of peers from the packets that they send.
	Learning *bool `json:"learning,omitempty"`
	// Local and Remote are addresses of the outer packets; Remote may be a group.
	Local  string `json:"local,omitempty"`
	Remote string `json:"remote,omitempty"`
	// DestinationPort is 1 to 65535; 4789 is the default.
	DestinationPort *int `json:"destination-port,omitempty"`
}

// VRF has a table of its own for the packets of its ports.
type VRF struct {
	Ports []string `json:"port,omitzero" alias:"ports"`
	Table *int64   `json:"route-table-id,omitempty"`
}

// MACVLAN is an interface with a MAC of its own on a base interface.
type MACVLAN struct {
	Base string `json:"base-iface,omitempty"`
	// Mode is bridge, private, vepa, passthru or source.
	Mode string `json:"mode,omitempty"`
	// Promiscuous is of mode passthru.
	Promiscuous *bool `json:"promiscuous,omitempty" alias:"accept-all-mac"`
}

// IPVLAN is an interface with addresses of its own and the MAC of its base interface.
type IPVLAN struct {
	Base string `json:"base-iface,omitempty"`
	// Mode is l2, l3 or l3s.
	Mode string `json:"mode,omitempty"`
	// Private ports do not reach each other, VEPA ones by the switch alone.
	Private *bool `json:"private,omitempty"`
	VEPA    *bool `json:"vepa,omitempty"`
}

// Ports returns the names of the interfaces that a controller has, none for others.
func (i Interface) Ports() []string {
	switch {
	case i.Bond != nil:
		return i.Bond.Ports
	case i.VRF != nil:
		return i.VRF.Ports
	case i.Bridge != nil:
		var names []string
		for _, port := range i.Bridge.Ports {
			names = append(names, port.Name)
		}
		return names
	default:
		return nil
	}
}

// Base returns the name of the base interface, "" for an interface without one.
func (i Interface) Base() string {
	switch {
	case i.VLAN != nil:
		return i.VLAN.Base
	case i.VXLAN != nil:
		return i.VXLAN.Base
	case i.MACVLAN != nil:
		return i.MACVLAN.Base
	case i.IPVLAN != nil:
		return i.IPVLAN.Base
	default:
		return ""
	}
}
