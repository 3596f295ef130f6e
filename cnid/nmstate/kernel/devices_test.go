// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

func enslave(port, controller, kind string) plan.Enslave {
	return plan.Enslave{Port: port, Controller: controller, Type: kind}
}

func TestBridge_OptionsAndPorts_Shown(t *testing.T) {
	k, _ := open(t)
	options := &document.BridgeOptions{
		STP:           &document.STP{Enabled: new(true), ForwardDelay: new(4), HelloTime: new(3), MaxAge: new(10), Priority: new(4096)},
		MACAgeingTime: new(100), GroupForwardMask: new(8), MulticastSnooping: new(false),
	}
	do(
		t,
		k,
		create(
			document.Interface{Name: "br", Type: document.LinuxBridge, MTU: new(1450), MACAddress: "02:00:00:00:00:0B", Bridge: &document.Bridge{Options: options}},
		),
		pairOf("p2", "q2"),
		pairOf("p1", "q1"),
		enslave("p2", "br", document.LinuxBridge),
		enslave("p1", "br", document.LinuxBridge),
		plan.PortChange{Bridge: "br", Port: document.BridgePort{Name: "p1", Hairpin: new(true), PathCost: new(77), Priority: new(5)}},
	)
	got := find(t, k, "br")
	shown := got.Bridge.Options
	want(
		t,
		&document.BridgeOptions{
			STP:               shown.STP,
			MACAgeingTime:     shown.MACAgeingTime,
			GroupForwardMask:  shown.GroupForwardMask,
			MulticastSnooping: shown.MulticastSnooping,
		},
		options,
	)
	want(t, got.Bridge.Ports, []document.BridgePort{
		{Name: "p1", Hairpin: new(true), PathCost: new(77), Priority: new(5)}, {Name: "p2", Hairpin: new(false), PathCost: new(2), Priority: new(32)},
	})
	want(t, *got.MTU, 1450) // The ports have 1500.
	want(t, got.MACAddress, "02:00:00:00:00:0B")
	want(t, *find(t, k, "p1").Controller, "br")
	change := document.Interface{
		Name:   "br",
		Type:   document.LinuxBridge,
		Bridge: &document.Bridge{Options: &document.BridgeOptions{STP: &document.STP{Enabled: new(false)}, MACAgeingTime: new(0)}},
	}
	do(t, k, plan.Change{Interface: change}, enslave("p1", "br", document.LinuxBridge), plan.Enslave{Port: "p2", Type: document.LinuxBridge})
	got = find(t, k, "br")
	want(t, *got.Bridge.Options.STP.Enabled, false)
	want(t, *got.Bridge.Options.STP.HelloTime, 3)
	want(t, *got.Bridge.Options.MACAgeingTime, 0)
	want(t, got.Ports(), []string{"p1"})
	want(t, *find(t, k, "p2").Controller, "")
}

func TestBridge_MulticastOptions_Shown(t *testing.T) {
	k, _ := open(t)
	do(t, k, create(document.Interface{Name: "br", Type: document.LinuxBridge}))
	if find(t, k, "br").Bridge.Options.MulticastRouter == "" {
		t.Skip("bridges of this kernel do not snoop multicast frames (CONFIG_BRIDGE_IGMP_SNOOPING)")
	}
	options := document.BridgeOptions{
		MulticastRouter: "enabled", MulticastQuerier: new(true), MulticastQueryUseIfaddr: new(true), MulticastLastMemberCount: new(3),
		MulticastStartupQueryCount: new(4), MulticastLastMemberInterval: new(200), MulticastMembershipInterval: new(27000), MulticastQuerierInterval: new(26000),
		MulticastQueryInterval: new(13000), MulticastQueryResponseInterval: new(2000), MulticastStartupQueryInterval: new(4000), HashMax: new(512),
		GroupAddress: "01:80:C2:00:00:0A",
	}
	do(t, k, plan.Change{Interface: document.Interface{Name: "br", Type: document.LinuxBridge, Bridge: &document.Bridge{Options: &options}}})
	got := *find(t, k, "br").Bridge.Options
	got.STP, got.MACAgeingTime, got.GroupForwardMask, got.MulticastSnooping, got.VLANProtocol, got.VLANDefaultPVID = nil, nil, nil, nil, "", nil
	want(t, got, options)
	wrong := document.BridgeOptions{MulticastRouter: "often"}
	bridge := document.Interface{Name: "br", Type: document.LinuxBridge, Bridge: &document.Bridge{Options: &wrong}}
	if err := k.Do(t.Context(), plan.Change{Interface: bridge}); err == nil {
		t.Error("a word that means nothing is accepted")
	}
}

func TestPortSettings_NotAPort_Error(t *testing.T) {
	k, _ := open(t)
	do(t, k, create(document.Interface{Name: "br", Type: document.LinuxBridge}), pair())
	err := k.Do(t.Context(), plan.PortChange{Bridge: "br", Port: document.BridgePort{Name: "a", Hairpin: new(true)}})
	if err == nil || !strings.Contains(err.Error(), "a is no port of the bridge br") {
		t.Error(err)
	}
}

func TestTunnel_CreationSettings_AllShown(t *testing.T) {
	for _, made := range []document.VXLAN{
		{Base: "a", ID: new(42), Learning: new(false), Local: "192.0.2.1", Remote: "239.1.1.1", DestinationPort: new(8472)},
		{ID: new(1<<24 - 1), Learning: new(true), Local: "2001:db8::1", Remote: "2001:db8::2", DestinationPort: new(4789)},
	} {
		k, _ := open(t)
		do(t, k, pair(), create(document.Interface{Name: "vx", Type: document.VXLANType, VXLAN: &made}))
		got := find(t, k, "vx")
		want(t, got.Type, document.VXLANType)
		want(t, *got.VXLAN, made)
	}
	k, _ := open(t)
	do(t, k, create(document.Interface{Name: "vx", Type: document.VXLANType, VXLAN: &document.VXLAN{ID: new(7)}}))
	want(t, *find(t, k, "vx").VXLAN, document.VXLAN{ID: new(7), Learning: new(true), DestinationPort: new(4789)})
}

func TestMacvlan_EachMode_Made(t *testing.T) {
	for _, made := range []document.MACVLAN{
		{Mode: "bridge", Promiscuous: new(true)},
		{Mode: "private", Promiscuous: new(true)},
		{Mode: "vepa", Promiscuous: new(true)},
		{Mode: "source", Promiscuous: new(true)},
		{Mode: "passthru", Promiscuous: new(true)},
		{Mode: "passthru", Promiscuous: new(false)},
	} {
		made.Base = "a"
		k, _ := open(t)
		do(t, k, pair(), create(document.Interface{Name: "m", Type: document.MACVLANType, MACVLAN: &made}))
		want(t, *find(t, k, "m").MACVLAN, made)
	}
	k, _ := open(t)
	do(
		t, k, pair(), create(document.Interface{Name: "m", Type: document.MACVLANType, MACVLAN: &document.MACVLAN{Base: "a", Mode: "private"}}),
		plan.Change{Interface: document.Interface{Name: "m", Type: document.MACVLANType, MACVLAN: &document.MACVLAN{Mode: "vepa"}}})
	want(t, *find(t, k, "m").MACVLAN, document.MACVLAN{Base: "a", Mode: "vepa", Promiscuous: new(true)})
}

func TestIPvlan_EachMode_Made(t *testing.T) {
	for _, made := range []document.IPVLAN{
		{Mode: "l2", Private: new(false), VEPA: new(false)}, {Mode: "l3", Private: new(true), VEPA: new(false)}, {Mode: "l3s", Private: new(false), VEPA: new(true)},
	} {
		made.Base = "a"
		k, _ := open(t)
		do(t, k, pair(), create(document.Interface{Name: "i", Type: document.IPVLANType, IPVLAN: &made}))
		want(t, *find(t, k, "i").IPVLAN, made)
	}
	k, _ := open(t)
	do(
		t, k, pair(), create(document.Interface{Name: "i", Type: document.IPVLANType, IPVLAN: &document.IPVLAN{Base: "a", Mode: "l2", VEPA: new(true)}}),
		plan.Change{Interface: document.Interface{Name: "i", Type: document.IPVLANType, IPVLAN: &document.IPVLAN{Mode: "l3", Private: new(false)}}})
	want(t, *find(t, k, "i").IPVLAN, document.IPVLAN{Base: "a", Mode: "l3", Private: new(false), VEPA: new(true)})
}

func TestVLAN_BothProtocols_Made(t *testing.T) {
	for protocol, shown := range map[string]string{
		"":                      document.Protocol8021Q,
		document.Protocol8021Q:  document.Protocol8021Q,
		document.Protocol8021AD: document.Protocol8021AD,
	} {
		k, _ := open(t)
		do(
			t,
			k,
			pair(),
			create(document.Interface{Name: "v", Type: document.VLANType, MTU: new(1400), VLAN: &document.VLAN{Base: "a", ID: new(4094), Protocol: protocol}}),
		)
		got := find(t, k, "v")
		want(t, *got.VLAN, document.VLAN{Base: "a", ID: new(4094), Protocol: shown})
		want(t, *got.MTU, 1400)
	}
}

func TestDummy_Create_Made(t *testing.T) {
	k, _ := open(t)
	do(t, k, create(document.Interface{Name: "d", Type: document.Dummy, MACAddress: "02:00:00:00:00:0D"}), plan.SetUp{Name: "d"})
	got := find(t, k, "d")
	want(t, []string{got.Type, got.State, got.MACAddress}, []string{document.Dummy, document.Up, "02:00:00:00:00:0D"})
}

func TestVRF_TableAndPorts_ShownWithoutOwnRule(t *testing.T) {
	k, _ := open(t)
	do(
		t, k, create(document.Interface{Name: "red", Type: document.VRFType, VRF: &document.VRF{Table: new(int64(100000))}}),
		pairOf("p2", "q2"), pairOf("p1", "q1"), enslave("p2", "red", document.VRFType), enslave("p1", "red", document.VRFType), plan.SetUp{Name: "red"},
		plan.SetUp{Name: "p1"}, plan.SetUp{Name: "q1"}, plan.AddAddress{Name: "p1", Address: document.Address{IP: "192.0.2.1", PrefixLength: 24}},
		plan.AddRoute{Route: route("198.51.100.0/24", "192.0.2.254", "p1", 100000, 0)})
	want(t, find(t, k, "red").VRF, &document.VRF{Ports: []string{"p1", "p2"}, Table: new(int64(100000))})
	state := show(t, k)
	want(t, state.RouteRules.Config, []document.RouteRule{})
	want(t, state.Routes.Config, []document.Route{route("198.51.100.0/24", "192.0.2.254", "p1", 100000, 0)})
}

// filtering returns a bridge with a port, and skips the test where no bridge filters VLANs.
func filtering(t *testing.T, options *document.BridgeOptions) *kernel.Kernel {
	t.Helper()
	k, _ := open(t)
	do(t, k, create(document.Interface{Name: "br", Type: document.LinuxBridge}), pair(), enslave("a", "br", document.LinuxBridge))
	bridge := find(t, k, "br").Bridge
	if bridge.Options.VLANDefaultPVID == nil {
		err := k.Do(
			t.Context(),
			plan.PortChange{Bridge: "br", Port: document.BridgePort{Name: "a", VLAN: &document.PortVLAN{Mode: document.PortAccess, Tag: new(10)}}},
		)
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "CONFIG_BRIDGE_VLAN_FILTERING") {
			t.Errorf("%v, want ErrUnsupported", err)
		}
		t.Skip("bridges of this kernel do not filter VLANs")
	}
	want(t, bridge.Ports[0].VLAN, nil)
	do(
		t,
		k,
		plan.Delete{Name: "br"},
		create(document.Interface{Name: "br", Type: document.LinuxBridge, Bridge: &document.Bridge{Options: options}}),
		enslave("a", "br", document.LinuxBridge),
	)
	return k
}

func TestPortVLAN_Set_ShownUnchanged(t *testing.T) {
	vid := func(id int) document.TrunkTag { return document.TrunkTag{ID: &id} }
	span := func(low, high int) document.TrunkTag {
		return document.TrunkTag{Range: &document.TagRange{Min: low, Max: high}}
	}
	k := filtering(t, nil)
	for _, vlan := range []document.PortVLAN{
		{Mode: document.PortAccess, Tag: new(10), TrunkTags: []document.TrunkTag{}},
		{Mode: document.PortTrunk, EnableNative: new(false), TrunkTags: []document.TrunkTag{span(10, 20), vid(30), span(4000, 4094)}},
		{Mode: document.PortTrunk, EnableNative: new(true), Tag: new(15), TrunkTags: []document.TrunkTag{span(10, 14), span(16, 20), vid(31)}},
		{Mode: document.PortTrunk, EnableNative: new(true), Tag: new(31), TrunkTags: []document.TrunkTag{vid(15)}},
		{Mode: document.PortTrunk, EnableNative: new(false), TrunkTags: []document.TrunkTag{vid(31)}},
		{Mode: document.PortAccess, Tag: new(31), TrunkTags: []document.TrunkTag{}},
		{Mode: document.PortTrunk, EnableNative: new(false), TrunkTags: []document.TrunkTag{span(1, 4094)}},
	} {
		change := plan.PortChange{Bridge: "br", Port: document.BridgePort{Name: "a", VLAN: &vlan}}
		do(t, k, change, change)
		want(t, *find(t, k, "br").Bridge.Ports[0].VLAN, vlan)
	}
	reset := plan.PortChange{Bridge: "br", Port: document.BridgePort{Name: "a", VLAN: &document.PortVLAN{}}}
	do(t, k, reset)
	want(t, *find(t, k, "br").Bridge.Ports[0].VLAN, document.PortVLAN{Mode: document.PortAccess, Tag: new(1), TrunkTags: []document.TrunkTag{}})
	do(t, k, plan.Unfilter{Bridge: "br"}, plan.Unfilter{Bridge: "br"})
	if got := find(t, k, "br").Bridge.Ports[0].VLAN; got != nil {
		t.Errorf("a bridge that does not filter shows %+v", *got)
	}
}

func TestBridgePort_NoDefaultVLAN_HasNone(t *testing.T) {
	options := &document.BridgeOptions{VLANDefaultPVID: new(0), VLANProtocol: document.Protocol8021AD}
	k := filtering(t, options)
	reset := plan.PortChange{Bridge: "br", Port: document.BridgePort{Name: "a", VLAN: &document.PortVLAN{}}}
	do(t, k, plan.PortChange{Bridge: "br", Port: document.BridgePort{Name: "a", VLAN: &document.PortVLAN{Mode: document.PortAccess, Tag: new(5)}}}, reset)
	got := find(t, k, "br").Bridge
	want(t, *got.Ports[0].VLAN, document.PortVLAN{})
	want(t, []any{got.Options.VLANProtocol, *got.Options.VLANDefaultPVID}, []any{document.Protocol8021AD, 0})
}

func TestPortVLAN_InvalidValues_Error(t *testing.T) {
	k, _ := open(t)
	do(t, k, create(document.Interface{Name: "br", Type: document.LinuxBridge}), pair(), enslave("a", "br", document.LinuxBridge))
	for _, vlan := range []document.PortVLAN{
		{Mode: document.PortAccess},
		{Mode: document.PortAccess, Tag: new(4095)},
		{Mode: document.PortTrunk, Tag: new(5)},
		{Mode: document.PortTrunk, TrunkTags: []document.TrunkTag{{}}},
		{Mode: document.PortTrunk, TrunkTags: []document.TrunkTag{{Range: &document.TagRange{Min: 5, Max: 4}}}},
	} {
		err := k.Do(t.Context(), plan.PortChange{Bridge: "br", Port: document.BridgePort{Name: "a", VLAN: &vlan}})
		if err == nil || !strings.Contains(err.Error(), "bridge.port[a].vlan.t") {
			t.Errorf("%+v: %v", vlan, err)
		}
	}
}

// bondOf makes a bond.
func bondOf(mode string, options map[string]any) plan.Create {
	return create(document.Interface{Name: "bond", Type: document.Bond, Bond: &document.LinkAggregation{Mode: mode, Options: options}})
}

func TestBond_EachMode_RecreatedFromShownState(t *testing.T) {
	for _, mode := range document.BondModes {
		t.Run(mode, func(t *testing.T) {
			k, _ := open(t)
			do(t, k, bondOf(mode, nil))
			first := find(t, k, "bond")
			want(t, first.Bond.Mode, mode)
			do(t, k, plan.Delete{Name: "bond"}, create(document.Interface{Name: "bond", Type: document.Bond, Bond: first.Bond}))
			want(t, find(t, k, "bond").Bond, first.Bond)
			if _, ok := first.Bond.Options["lacp_rate"]; ok != (mode == "802.3ad") {
				t.Errorf("options are %v", first.Bond.Options)
			}
		})
	}
}

func TestBond_CreationOptions_Shown(t *testing.T) {
	for mode, options := range map[string]map[string]any{
		"802.3ad": {
			"miimon": 100, "updelay": 200, "downdelay": 300, "lacp_rate": "fast", "xmit_hash_policy": "layer3+4", "ad_select": "bandwidth", "min_links": 1,
			"ad_actor_sys_prio": 4000, "ad_user_port_key": 3, "ad_actor_system": "02:00:00:00:00:AA", "lacp_active": "on",
		},
		"active-backup": {
			"arp_interval": 500, "arp_ip_target": "192.0.2.1,192.0.2.2", "arp_validate": "all", "arp_all_targets": "all", "fail_over_mac": "active",
			"primary_reselect": "better", "num_grat_arp": 3, "resend_igmp": 2, "all_slaves_active": "delivered",
		},
		"balance-rr":  {"packets_per_slave": 4, "lp_interval": 2, "miimon": 50, "peer_notif_delay": 100},
		"balance-tlb": {"tlb_dynamic_lb": 0, "miimon": 100, "xmit_hash_policy": "vlan+srcmac"},
	} {
		t.Run(mode, func(t *testing.T) {
			k, _ := open(t)
			do(t, k, bondOf(mode, options))
			got := find(t, k, "bond").Bond.Options
			for name, value := range options {
				want(t, got[name], value)
			}
		})
	}
}

func TestBondOptions_EachNotation_Accepted(t *testing.T) {
	k, _ := open(t)
	do(
		t,
		k,
		bondOf("active-backup", map[string]any{"miimon": "100", "fail_over_mac": int64(1), "use_carrier": true, "min_links": float64(2), "updelay": 0}),
		plan.Change{
			Interface: document.Interface{
				Name: "bond",
				Bond: &document.LinkAggregation{Options: map[string]any{"miimon": 0, "arp_interval": 100, "arp_ip_target": []any{"192.0.2.1"}}},
			},
		},
	)
	got := find(t, k, "bond").Bond.Options
	for name, value := range map[string]any{"miimon": 0, "arp_interval": 100, "arp_ip_target": "192.0.2.1", "fail_over_mac": "active", "use_carrier": 1, "min_links": 2} {
		want(t, got[name], value)
	}
	do(
		t,
		k,
		plan.Change{Interface: document.Interface{Name: "bond", Bond: &document.LinkAggregation{Options: map[string]any{"arp_interval": 0, "arp_ip_target": ""}}}},
	)
	want(t, find(t, k, "bond").Bond.Options["arp_ip_target"], nil)
	k, _ = open(t)
	do(t, k, bondOf("802.3ad", map[string]any{"ad_actor_system": "00:00:00:00:00:00"}))
	want(t, find(t, k, "bond").Bond.Options["ad_actor_system"], nil)
}

// TestBondOptions_EachDocumented_Known: a document is checked before the driver is asked.
func TestBondOptions_EachDocumented_Known(t *testing.T) {
	k, _ := open(t)
	for _, option := range compare.BondOptions() {
		err := k.Do(t.Context(), bondOf("active-backup", map[string]any{option: "nothing"}))
		if err != nil && strings.Contains(err.Error(), "no option that the engine knows") {
			t.Errorf("%s: %v", option, err)
		}
	}
}

func TestBondPorts_Added_TakenDownAndPrimarySet(t *testing.T) {
	k, _ := open(t)
	do(
		t, k, bondOf("active-backup", map[string]any{"miimon": 100}), pairOf("p2", "q2"), pairOf("p1", "q1"), plan.SetUp{Name: "p1"},
		enslave("p2", "bond", document.Bond), enslave("p1", "bond", document.Bond),
		plan.Change{Interface: document.Interface{Name: "bond", Bond: &document.LinkAggregation{Options: map[string]any{"primary": "p2"}}}})
	got := find(t, k, "bond")
	want(t, got.Bond.Ports, []string{"p1", "p2"})
	want(t, got.Bond.Options["primary"], any("p2"))
	do(t, k, plan.Enslave{Port: "p1", Type: document.Bond})
	want(t, find(t, k, "bond").Bond.Ports, []string{"p2"})
}

func TestBondOptions_Unknown_ErrorWithPath(t *testing.T) {
	k, _ := open(t)
	for _, options := range []map[string]any{{"active_slave": "p"}, {"num_unsol_na": 1}, {"none": 1}, {"miimon": "often"}, {"min_links": -1}, {"arp_ip_target": "2001:db8::1"}, {"ad_actor_system": "x"}} {
		err := k.Do(t.Context(), bondOf("active-backup", options))
		for name := range options {
			if err == nil || !strings.Contains(err.Error(), "create bond bond: link-aggregation.options."+name+": ") {
				t.Errorf("%v: %v", options, err)
			}
		}
	}
	if err := k.Do(t.Context(), bondOf("fast", nil)); err == nil || !strings.Contains(err.Error(), "link-aggregation.mode") {
		t.Error(err)
	}
}

func TestDeviceKind_MissingInKernel_Named(t *testing.T) {
	k, _ := open(t)
	lacks := 0
	for _, i := range []document.Interface{
		{Name: "x", Type: document.Bond}, {Name: "x", Type: document.Dummy}, {Name: "x", Type: document.VRFType, VRF: &document.VRF{Table: new(int64(5))}},
	} {
		err := k.Do(t.Context(), create(i))
		if errors.Is(err, unix.EOPNOTSUPP) {
			lacks++
			if !strings.Contains(err.Error(), "this kernel has no devices of type "+i.Type) {
				t.Error(err)
			}
			continue
		}
		do(t, k, plan.Delete{Name: "x"})
	}
	if lacks == 0 {
		t.Skip("this kernel has all kinds of devices")
	}
}

func TestDeviceKind_UnsupportedByEngine_Unknown(t *testing.T) {
	k, n := open(t)
	n.Do(t, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "tun"
		return netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TUN})
	})
	want(t, find(t, k, "tun").Type, document.Unknown)
	if !slices.Contains(n.Links(t), "tun") {
		t.Error("tun is gone")
	}
}

func TestAddress_UserLinkLocal_Shown(t *testing.T) {
	k, n := open(t)
	do(t, k, pair(), plan.SetUp{Name: "a"}, plan.SetUp{Name: "b"})
	n.Do(t, netnstest.OnLink("a", func(l netlink.Link) error {
		list, err := netlink.AddrList(l, netlink.FAMILY_V6)
		if len(list) != 1 || !list[0].IP.IsLinkLocalUnicast() {
			t.Errorf("the kernel made %v, want one address", list)
		}
		return err
	}))
	want(t, find(t, k, "a").IPv6.Addresses, addresses())
	do(t, k, plan.AddAddress{Name: "a", Address: document.Address{IP: "fe80::1", PrefixLength: 64}})
	want(t, find(t, k, "a").IPv6.Addresses, addresses(document.Address{IP: "fe80::1", PrefixLength: 64}))
}
