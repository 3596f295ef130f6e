// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// Step is one change of the kernel's state. It is a value that can be written down, and
// carries all that its execution needs.
type Step interface {
	// String tells a person what the step does, in the infinitive.
	String() string
}

// Delete removes a virtual interface.
type Delete struct{ Name string }

// Create makes a virtual interface, which is down and has neither ports nor addresses.
// It applies the settings of the type, description, MAC address and MTU.
type Create struct{ Interface document.Interface }

// Change applies settings of an existing interface: description, alternative names (it adds some,
// and removes the absent ones), MAC address, MTU, promiscuous mode, and the changeable settings
// of its type. Interface has the changed settings alone, its name and its type.
type Change struct{ Interface document.Interface }

// Enslave makes an interface a port of a controller, with the controller's type. "" as
// Controller detaches it.
type Enslave struct{ Port, Controller, Type string }

// PortChange applies settings of a port of a bridge, which has it already.
type PortChange struct {
	Bridge string
	Port   document.BridgePort
}

// Unfilter turns the filter of VLANs of a bridge off.
type Unfilter struct{ Bridge string }

// SetUp sets an interface administratively up.
type SetUp struct{ Name string }

// SetDown sets an interface administratively down.
type SetDown struct{ Name string }

// SetFamily enables or disables IPv6 on an interface. IPv4 needs no such thing.
type SetFamily struct {
	Name    string
	Enabled bool
}

// SetForwarding has a family of an interface forward packets, or not.
type SetForwarding struct {
	Name, Family string
	On           bool
}

// SetAutomatic turns DHCP and autoconfiguration of a family of an interface on or off, and
// sets what of it is used. IP has these settings alone. With DHCP or Autoconf go the addresses
// and routes that came by it.
type SetAutomatic struct {
	Name, Family string
	IP           document.IP
}

// AddAddress adds one address to an interface.
type AddAddress struct {
	Name    string
	Address document.Address
}

// RemoveAddress removes one address from an interface.
type RemoveAddress struct {
	Name    string
	Address document.Address
}

// AddRoute adds one route, with table and metric filled in.
type AddRoute struct{ Route document.Route }

// RemoveRoute removes one route, with table and metric filled in.
type RemoveRoute struct{ Route document.Route }

// AddRule adds one rule, with family, priority and table filled in.
type AddRule struct{ Rule document.RouteRule }

// RemoveRule removes one rule, with family, priority and table filled in.
type RemoveRule struct{ Rule document.RouteRule }

// SetResolver replaces the resolver's configuration; an empty one removes it.
type SetResolver struct{ Resolver document.Resolver }

// SetVFs sets how many virtual functions an interface has, and their settings.
type SetVFs struct {
	Name  string
	SRIOV document.SRIOV
}

func (s Delete) String() string { return "delete " + s.Name }
func (s Create) String() string {
	return fmt.Sprintf("create %s %s", s.Interface.Type, s.Interface.Name)
}
func (s Change) String() string { return "change settings of " + s.Interface.Name }
func (s Enslave) String() string {
	if s.Controller == "" {
		return fmt.Sprintf("detach %s from its controller", s.Port)
	}
	return fmt.Sprintf("attach %s to %s", s.Port, s.Controller)
}

func (s PortChange) String() string {
	return fmt.Sprintf("change settings of port %s of %s", s.Port.Name, s.Bridge)
}
func (s Unfilter) String() string { return "turn the VLAN filter of " + s.Bridge + " off" }
func (s SetUp) String() string    { return "set up " + s.Name }
func (s SetDown) String() string  { return "set down " + s.Name }
func (s SetFamily) String() string {
	if s.Enabled {
		return "enable IPv6 on " + s.Name
	}
	return "disable IPv6 on " + s.Name
}

func (s SetForwarding) String() string {
	word := "off"
	if s.On {
		word = "on"
	}
	return fmt.Sprintf("turn forwarding of %s on %s %s", s.Family, s.Name, word)
}

func (s SetAutomatic) String() string {
	word := func(on *bool) string {
		if on != nil && *on {
			return "on"
		}
		return "off"
	}
	words := fmt.Sprintf("set %s of %s: DHCP %s", s.Family, s.Name, word(s.IP.DHCP))
	if s.IP.Autoconf != nil {
		words += ", autoconfiguration " + word(s.IP.Autoconf)
	}
	return words
}

func (s AddAddress) String() string {
	return fmt.Sprintf("add %s/%d to %s", s.Address.IP, s.Address.PrefixLength, s.Name)
}

func (s RemoveAddress) String() string {
	return fmt.Sprintf("remove %s/%d from %s", s.Address.IP, s.Address.PrefixLength, s.Name)
}
func (s AddRoute) String() string    { return "add the route " + routeWords(s.Route) }
func (s RemoveRoute) String() string { return "remove the route " + routeWords(s.Route) }
func (s AddRule) String() string     { return "add the rule " + ruleWords(s.Rule) }
func (s RemoveRule) String() string  { return "remove the rule " + ruleWords(s.Rule) }
func (s SetResolver) String() string { return "replace the resolver's configuration" }
func (s SetVFs) String() string      { return "set virtual functions of " + s.Name }
