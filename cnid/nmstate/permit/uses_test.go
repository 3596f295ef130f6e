// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// busy has a bridge with a VLAN of a bond and a port of a pod, which is not shown, virtual
// functions on eth3 and the tunnel's address on eth4.
var busy = &document.State{Interfaces: []document.Interface{
	{Name: "eth0", Controller: new("bond0"), MTU: new(9000)},
	{Name: "eth1", Controller: new("bond0"), MTU: new(9000)},
	{Name: "bond0", MTU: new(9000), Bond: &document.LinkAggregation{Ports: []string{"eth0", "eth1"}}},
	{Name: "bond0.5", MTU: new(9000), VLAN: &document.VLAN{Base: "bond0", ID: new(5)}},
	{Name: "br0", MTU: new(9000), Bridge: &document.Bridge{Ports: []document.BridgePort{{Name: "bond0.5"}, {Name: "vethpod"}}}},
	{Name: "eth2", MTU: new(1500)},
	{Name: "eth3", Ethernet: &document.EthernetConfig{SRIOV: &document.SRIOV{
		TotalVFs: new(4), VFs: []document.VF{{ID: 0, Trust: new(true)}, {ID: 1}, {ID: 2}, {ID: 3, Trust: new(false)}},
	}}},
	{Name: "eth4"},
	{Name: "v1", Veth: &document.Veth{Peer: "v2"}},
	{Name: "v2", Veth: &document.Veth{Peer: "v1"}},
}}

var tunnel = netip.MustParseAddr("192.0.2.4")

func users() []Use {
	return []Use{
		{Interface: "br0", MTU: 8000, By: "pod default/web (interface net1)"},
		{Interface: "bond0", VLAN: 7, By: "network prod/blue (host link bond0.7)"},
		{Interface: "eth3", VFs: 2, By: "pod default/fast (interface net1)"},
		{Interface: "eth4", Addresses: []netip.Addr{tunnel}, By: "Alioth's tunnel"},
		{Interface: "v1", By: "pod default/near (interface net1)"},
	}
}

func inBusy(uses []Use, steps ...plan.Step) error {
	return Rules{host{uses: uses, kept: true}}.Steps(busy, steps)
}

func setMTU(name string, mtu int) plan.Step {
	return plan.Change{Interface: document.Interface{Name: name, MTU: &mtu}}
}

func vlan(id int) plan.Step {
	return plan.Create{Interface: document.Interface{Name: "vlan", Type: document.VLANType, VLAN: &document.VLAN{Base: "bond0", ID: &id}}}
}

func vfs(count int, list ...document.VF) plan.Step {
	return plan.SetVFs{Name: "eth3", SRIOV: document.SRIOV{TotalVFs: &count, VFs: list}}
}

func TestPermitUses_ObjectInUse_RemovalRefused(t *testing.T) {
	const pod, link, fast, alioth, near = "pod default/web (interface net1)", "network prod/blue", "pod default/fast", "Alioth's tunnel", "pod default/near"
	address := document.Address{IP: tunnel.String(), PrefixLength: 24}
	for _, test := range []struct {
		steps []plan.Step
		users []string
	}{
		{[]plan.Step{plan.Delete{Name: "br0"}}, []string{pod}},
		{[]plan.Step{plan.SetDown{Name: "br0"}}, []string{pod}},
		{[]plan.Step{plan.Enslave{Port: "br0", Controller: "vrf0"}}, []string{pod}},
		{[]plan.Step{plan.SetDown{Name: "bond0.5"}}, []string{pod}},
		{[]plan.Step{plan.Enslave{Port: "bond0.5"}}, []string{pod}},
		{[]plan.Step{plan.Delete{Name: "bond0"}}, []string{pod, link}},
		{[]plan.Step{plan.SetDown{Name: "eth0"}, plan.Enslave{Port: "eth1"}}, []string{pod, link}},
		{[]plan.Step{setMTU("br0", 7999)}, []string{pod}},
		{[]plan.Step{setMTU("bond0.5", 1500)}, []string{pod}},
		{[]plan.Step{setMTU("eth0", 1500)}, []string{pod}},
		{[]plan.Step{vlan(7)}, []string{link}},
		{[]plan.Step{vfs(8)}, []string{fast}},
		{[]plan.Step{vfs(2)}, []string{fast}},
		{[]plan.Step{vfs(4, document.VF{ID: 0, Trust: new(false)})}, []string{fast}},
		{[]plan.Step{vfs(4, document.VF{ID: 1, MACAddress: "02:00:00:00:00:01"})}, []string{fast}},
		{[]plan.Step{plan.SetDown{Name: "eth3"}}, []string{fast}},
		{[]plan.Step{plan.RemoveAddress{Name: "eth4", Address: address}}, []string{alioth}},
		{[]plan.Step{plan.Delete{Name: "v2"}}, []string{near}},
	} {
		err := inBusy(users(), test.steps...)
		if !errors.Is(err, ErrInUse) {
			t.Errorf("%v: %v", test.steps, err)
			continue
		}
		for _, use := range users() {
			named, want := strings.Contains(err.Error(), use.By), false
			for _, by := range test.users {
				want = want || strings.HasPrefix(use.By, by)
			}
			if named != want {
				t.Errorf("%v: %s is named: %v, want %v: %v", test.steps, use.By, named, want, err)
			}
		}
	}
}

func TestPermitUses_UsersUnaffected_Permitted(t *testing.T) {
	address := document.Address{IP: tunnel.String(), PrefixLength: 24}
	wider := document.Address{IP: tunnel.String(), PrefixLength: 16}
	for _, steps := range [][]plan.Step{
		{plan.SetDown{Name: "eth0"}}, // the bond has eth1
		{plan.Enslave{Port: "bond0.5"}, plan.Enslave{Port: "v2", Controller: "br0"}, plan.SetUp{Name: "v2"}}, // another port
		{plan.Delete{Name: "eth2"}},
		{plan.Enslave{Port: "v2", Controller: "br0"}},
		{setMTU("br0", 8000), setMTU("eth2", 1000)},
		{vlan(8)},
		{vfs(4, document.VF{ID: 0, Trust: new(true)}, document.VF{ID: 3, Trust: new(true)})},
		{plan.RemoveAddress{Name: "eth4", Address: address}, plan.AddAddress{Name: "eth4", Address: wider}},
		{plan.RemoveAddress{Name: "eth2", Address: address}},
		{plan.SetFamily{Name: "eth4"}},
		{plan.SetForwarding{Name: "eth4", Family: document.FamilyIPv4, On: true}, plan.SetForwarding{Name: "eth9", Family: document.FamilyIPv4}},
		{plan.AddAddress{Name: "br0"}, plan.RemoveAddress{Name: "br0"}, plan.PortChange{Bridge: "br0"}},
	} {
		if err := inBusy(users(), steps...); err != nil {
			t.Errorf("%v: %v", steps, err)
		}
	}
}

func TestPermitUses_TooSmallMTU_MayGrow(t *testing.T) {
	if err := inBusy([]Use{{Interface: "eth2", MTU: 9000, By: "a pod"}}, setMTU("eth2", 2000)); err != nil {
		t.Error(err)
	}
}

func TestPermitUses_TunnelIPv6Address_FamilyKept(t *testing.T) {
	six := []Use{{Interface: "eth4", Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::4")}, By: "Alioth's tunnel"}}
	if err := inBusy(six, plan.SetFamily{Name: "eth4"}); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v", err)
	}
}

func TestPermitUses_InterfaceInUse_ForwardingKept(t *testing.T) {
	six := []Use{{Interface: "eth4", By: "Alioth's tunnel"}}
	if err := inBusy(six, plan.SetForwarding{Name: "eth4", Family: document.FamilyIPv4}); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v", err)
	}
}

func TestPermitUses_ManyUsers_FewNamedRestCounted(t *testing.T) {
	var many []Use
	for n := range 8 {
		many = append(many, Use{Interface: "eth2", By: fmt.Sprintf("pod %d", n)}, Use{Interface: "eth2", By: fmt.Sprintf("pod %d", n)})
	}
	err := inBusy(many, plan.SetDown{Name: "eth2"})
	if err == nil || !strings.Contains(err.Error(), "used by pod 0, pod 1, pod 2, pod 3, pod 4 and 3 more;") {
		t.Errorf("got %v", err)
	}
}

func TestPermitUses_NoUsers_NothingInUse(t *testing.T) {
	if err := rules("", true).Steps(busy, []plan.Step{plan.Delete{Name: "br0"}}); err != nil {
		t.Error(err)
	}
}
