// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"errors"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// example has its default route on a VLAN of a bond.
var example = &document.State{
	Interfaces: []document.Interface{
		{Name: "bond0", Bond: &document.LinkAggregation{Ports: []string{"eth0", "eth1"}}},
		{Name: "bond0.5", VLAN: &document.VLAN{Base: "bond0"}},
		{Name: "eth0"},
		{Name: "eth1"},
		{Name: "eth2"},
		{Name: "eth9"},
	},
	Routes: &document.Routes{Running: []document.Route{
		{Destination: "0.0.0.0/0", Interface: "bond0.5", Address: "192.0.2.1"},
		{Destination: "203.0.113.0/24", Interface: "eth2"},
	}},
}

// host is a node whose programs are known by interface.
type host struct {
	managers, clients map[string]string
	unknown, unserved error
	kept              bool
	uses              []Use
}

func (h host) Manager(name string) (string, error) { return h.managers[name], h.unknown }
func (h host) Client(name string) (string, error)  { return h.clients[name], nil }
func (h host) Served() error                       { return h.unserved }
func (h host) Resolver() error                     { return nil }
func (h host) Kept() bool                          { return h.kept }
func (h host) Uses() []Use                         { return h.uses }

func rules(manager string, kept bool) Rules {
	return Rules{host{managers: map[string]string{"eth9": manager}, kept: kept}}
}

func TestPermit_NodeAddress_KeptThroughReboot(t *testing.T) {
	defaultRoute := document.Route{Destination: "::/0", Interface: "eth2"}
	for _, step := range []plan.Step{
		plan.Delete{Name: "bond0.5"},
		plan.SetDown{Name: "bond0"},
		plan.SetDown{Name: "eth1"},
		plan.Change{Interface: document.Interface{Name: "bond0"}},
		plan.Enslave{Port: "eth0"},
		plan.SetFamily{Name: "bond0.5"},
		plan.RemoveAddress{Name: "bond0.5"},
		plan.RemoveRoute{Route: defaultRoute},
		plan.SetVFs{Name: "eth0"},
	} {
		err := rules("", false).Steps(example, []plan.Step{plan.SetUp{Name: "eth2"}, step})
		if !errors.Is(err, ErrNotKept) || !strings.Contains(err.Error(), step.String()) || !strings.Contains(err.Error(), "aliothctl state install") {
			t.Errorf("%s: %v", step, err)
		}
		if err := rules("", true).Steps(example, []plan.Step{step}); err != nil {
			t.Errorf("%s with the unit: %v", step, err)
		}
	}
}

func TestPermit_OnlyAdditions_Permitted(t *testing.T) {
	for _, step := range []plan.Step{
		plan.Delete{Name: "eth2"},
		plan.SetDown{Name: "eth2"},
		plan.RemoveAddress{Name: "eth2"},
		plan.Create{Interface: document.Interface{Name: "bond0.6"}},
		plan.AddAddress{Name: "bond0.5"},
		plan.RemoveRoute{Route: document.Route{Destination: "203.0.113.0/24"}},
		plan.AddRoute{Route: document.Route{Destination: "0.0.0.0/0"}},
		plan.SetFamily{Name: "bond0.5", Enabled: true},
		plan.SetForwarding{Name: "bond0.5", Family: document.FamilyIPv6, On: true},
		plan.SetUp{Name: "bond0"},
	} {
		if err := rules("", false).Steps(example, []plan.Step{step}); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
}

// TestPermit_LeaseDefaultRoute_NotNodesOwn, nor is one of another table: the node starts
// without both, so a boot loses nothing.
func TestPermit_LeaseDefaultRoute_NotNodesOwn(t *testing.T) {
	before := &document.State{
		Interfaces: []document.Interface{
			{Name: "eth0", IPv4: &document.IP{DHCP: new(false)}},
			{Name: "bond0", IPv4: &document.IP{DHCP: new(true)}, Bond: &document.LinkAggregation{Ports: []string{"eth1"}}},
			{Name: "eth1"},
			{Name: "eth2"},
		},
		Routes: &document.Routes{Running: []document.Route{
			{Destination: "0.0.0.0/0", Interface: "eth0", Address: "192.0.2.1", Protocol: document.ProtocolDHCP},
			{Destination: "0.0.0.0/0", Interface: "bond0", Address: "198.51.100.1", Protocol: document.ProtocolDHCP},
			{Destination: "0.0.0.0/0", Interface: "eth2", Address: "203.0.113.1", Table: new(int64(100))},
		}},
	}
	for _, step := range []plan.Step{
		plan.SetDown{Name: "eth1"},
		plan.Delete{Name: "bond0"},
		plan.Change{Interface: document.Interface{Name: "bond0"}},
		plan.SetAutomatic{Name: "bond0", Family: document.FamilyIPv4, IP: document.IP{DHCP: new(false)}},
		plan.SetDown{Name: "eth2"},
		plan.RemoveRoute{Route: before.Routes.Running[2]},
	} {
		if err := rules("", false).Steps(before, []plan.Step{step}); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
	for _, step := range []plan.Step{plan.SetDown{Name: "eth0"}, plan.RemoveRoute{Route: before.Routes.Running[0]}} {
		if err := rules("", false).Steps(before, []plan.Step{step}); !errors.Is(err, ErrNotKept) {
			t.Errorf("%s: %v", step, err)
		}
	}
}

func TestPermit_ForeignManagedInterface_LeftAlone(t *testing.T) {
	for _, step := range []plan.Step{
		plan.Delete{Name: "eth9"},
		plan.SetDown{Name: "eth9"},
		plan.SetUp{Name: "eth9"},
		plan.AddAddress{Name: "eth9"},
		plan.RemoveAddress{Name: "eth9"},
		plan.Change{Interface: document.Interface{Name: "eth9"}},
		plan.Enslave{Port: "eth9"},
		plan.SetFamily{Name: "eth9"},
		plan.SetForwarding{Name: "eth9"},
		plan.SetVFs{Name: "eth9"},
		plan.PortChange{Bridge: "eth9"},
		plan.Enslave{Port: "eth2", Controller: "eth9"},
	} {
		err := rules("NetworkManager", true).Steps(example, []plan.Step{step, step})
		if !errors.Is(err, ErrManaged) || strings.Count(err.Error(), "eth9 by NetworkManager") != 1 {
			t.Errorf("%s: %v", step, err)
		}
	}
}

func TestPermit_UnknownManager_Error(t *testing.T) {
	broken := errors.New("broken")
	r := Rules{host{unknown: broken, kept: true}}
	if err := r.Steps(example, []plan.Step{plan.SetUp{Name: "eth2"}}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
