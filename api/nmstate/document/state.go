// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

// State is a state document.
type State struct {
	// Description is for people, and has no effect.
	Description string      `json:"description,omitempty"`
	DNS         *DNS        `json:"dns-resolver,omitempty"`
	RouteRules  *RouteRules `json:"route-rules,omitempty"`
	Routes      *Routes     `json:"routes,omitempty"`
	// Interfaces are unique by name. A desired state changes only the interfaces that it names, and
	// the interfaces that an absent one or a controller brings in.
	Interfaces []Interface `json:"interfaces,omitzero"`
}

// DNS is the resolver's configuration. A list of a desired Config replaces the present one;
// without any list, Config removes all.
type DNS struct {
	// Running has the present settings of the resolver, read-only.
	Running *Resolver `json:"running,omitempty"`
	Config  *Resolver `json:"config,omitempty"`
}

// Resolver is the content of resolv.conf(5).
type Resolver struct {
	Server  []string `json:"server,omitzero"`
	Search  []string `json:"search,omitzero"`
	Options []string `json:"options,omitzero"`
}

// Routes are the routes of all tables. A desired state adds the routes of Config that are not
// absent, and deletes the routes that match an absent one.
type Routes struct {
	// Running are the routes of Config, and routes that others made: read-only.
	Running []Route `json:"running,omitzero"`
	Config  []Route `json:"config,omitzero"`
}

// Route is a route of a table. In an absent one a missing field matches any value.
type Route struct {
	// State is "", Absent, or Ignore for an entry without an effect.
	State string `json:"state,omitempty"`
	// Destination is a prefix in the form of CIDR.
	Destination string `json:"destination,omitempty"`
	// Interface is the interface of the next hop; a unicast route needs it.
	Interface string `json:"next-hop-interface,omitempty"`
	// Address is the address of the next hop; "" is a destination on the link.
	Address string `json:"next-hop-address,omitempty"`
	// Metric is 0 (the kernel's default) to 2^32-1. nil is the default.
	Metric *int64 `json:"metric,omitempty"`
	// Table is 0 (MainTable) to 2^32-1. nil is MainTable.
	Table *int64 `json:"table-id,omitempty"`
	// Type is "" (unicast), blackhole, unreachable or prohibit.
	Type string `json:"route-type,omitempty"`
	// Source is the preferred source address of packets.
	Source string `json:"source,omitempty"`
	// VRF is an interface: the route is in its table.
	VRF string `json:"vrf-name,omitempty"`
	// MTU is the MTU of the path, which LockMTU keeps from its discovery, and AdvMSS the segment
	// size of TCP that is told to peers.
	MTU     *int  `json:"mtu,omitempty"`
	LockMTU *bool `json:"lock-mtu,omitempty"`
	AdvMSS  *int  `json:"advmss,omitempty"`
	// InitCwnd and InitRwnd are the first windows of TCP, in segments.
	InitCwnd *int `json:"initcwnd,omitempty"`
	InitRwnd *int `json:"initrwnd,omitempty"`
	// QuickACK acknowledges each segment at once.
	QuickACK *bool `json:"quickack,omitempty"`
	// Protocol is the origin of a running route: "" (an administrator), ProtocolDHCP or
	// ProtocolRA. It is read-only, and an extension of Alioth.
	Protocol string `json:"protocol,omitempty"`
}

// MainTable is the table that the kernel looks up by default (RT_TABLE_MAIN).
const MainTable = 254

// Types of routes that are not unicast.
const (
	Blackhole   = "blackhole"
	Unreachable = "unreachable"
	Prohibit    = "prohibit"
)

// RouteRules are policy routing rules. A desired state adds the rules that are not absent,
// and deletes the rules that match an absent one.
type RouteRules struct {
	Config []RouteRule `json:"config,omitzero"`
}

// RouteRule is a rule (ip-rule(8)). It needs a family, or a prefix that tells it. In an
// absent one a missing field matches any value.
type RouteRule struct {
	// State is "" or Absent.
	State string `json:"state,omitempty"`
	// Family is "ipv4" or "ipv6".
	Family string `json:"family,omitempty"`
	From   string `json:"ip-from,omitempty"`
	To     string `json:"ip-to,omitempty"`
	// IncomingInterface is the device that received the packets.
	IncomingInterface string `json:"iif,omitempty"`
	// Mark and Mask select packets by their mark. A mask of nil has all bits.
	Mark *uint32 `json:"fwmark,omitempty"`
	Mask *uint32 `json:"fwmask,omitempty"`
	// Priority is 0 to 2^32-1. nil is the first free one from DefaultPriority on.
	Priority *int64 `json:"priority,omitempty"`
	// Table is the table that the rule looks up. nil is MainTable.
	Table *int64 `json:"route-table,omitempty"`
	// Action is "" (look up), blackhole, unreachable or prohibit.
	Action string `json:"action,omitempty"`
	// SuppressPrefixLength ignores routes with at most so many bits.
	SuppressPrefixLength *int `json:"suppress-prefix-length,omitempty"`
}

// AnyPrefix is ip-from or ip-to of an absent rule that matches rules without that field.
const AnyPrefix = "all"

// DefaultPriority is nmstate's priority for the first rule without one.
const DefaultPriority = 30000

// Families of addresses.
const (
	FamilyIPv4 = "ipv4"
	FamilyIPv6 = "ipv6"
)
