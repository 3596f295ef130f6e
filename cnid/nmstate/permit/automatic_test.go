// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

func turn(name string, on bool) plan.SetAutomatic {
	return plan.SetAutomatic{Name: name, Family: document.FamilyIPv4, IP: document.IP{DHCP: &on}}
}

func TestPermitDHCP_OtherClientOrUnserved_Refused(t *testing.T) {
	idle := errors.New("nobody serves")
	r := Rules{host{clients: map[string]string{"eth2": "dhclient (process 17)"}, unserved: idle, kept: true}}
	if err := r.Steps(example, []plan.Step{turn("eth2", false), turn("eth1", false)}); err != nil {
		t.Errorf("turned off: %v", err)
	}
	err := r.Steps(example, []plan.Step{turn("eth2", true), turn("eth1", true)})
	if !errors.Is(err, ErrClient) || strings.Count(err.Error(), "dhclient (process 17) asks for eth2") != 1 || strings.Count(err.Error(), idle.Error()) != 1 {
		t.Errorf("got %v", err)
	}
}

func TestPermitDHCP_LeaseEndTakesNodeAddress_Refused(t *testing.T) {
	if err := rules("", false).Steps(example, []plan.Step{turn("bond0.5", false)}); !errors.Is(err, ErrNotKept) {
		t.Errorf("turned off on the uplink: %v", err)
	}
	if err := rules("", false).Steps(example, []plan.Step{turn("bond0.5", true)}); err != nil {
		t.Errorf("turned on: %v", err)
	}
	state := &document.State{Interfaces: []document.Interface{{Name: "eth0", IPv4: &document.IP{Addresses: []document.Address{
		{IP: "192.0.2.7", PrefixLength: 24, Protocol: document.ProtocolDHCP},
	}}}}}
	r := Rules{host{
		uses: []Use{{Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}, By: "Alioth's tunnel"}}, kept: true,
	}}
	if err := r.Steps(state, []plan.Step{turn("eth0", false)}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "192.0.2.7 of eth0 would go") {
		t.Errorf("got %v", err)
	}
	again := plan.AddAddress{Name: "eth0", Address: document.Address{IP: "192.0.2.7", PrefixLength: 24}}
	if err := r.Steps(state, []plan.Step{turn("eth0", false), again}); err != nil {
		t.Errorf("it becomes static: %v", err)
	}
}
