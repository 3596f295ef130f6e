// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink/nl"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// option is an option of the bonding driver.
type option struct {
	name      string
	attribute uint16
	// width is the width of the option's number in bytes, and 0 for other types.
	width int
	// modes are those that have the option, nil all of them. In others the kernel
	// shows a default and refuses to set it (bond_opts in bond_options.c of Linux 6.12).
	modes []string
}

// Attributes of bonds that the library lacks (include/uapi/linux/if_link.h).
const (
	bondPeerNotifyDelay = 28
	bondLACPActive      = 29
	bondMissedMax       = 30
	bondTargets6        = 31
)

// bondOptions are those that documents may have. That a port is active is the driver's
// choice, so active_slave is not one of them.
func bondOptions() []option {
	lacp, first := []string{"802.3ad"}, []string{"active-backup", "balance-tlb", "balance-alb"}
	loadless := []string{"balance-rr", "active-backup", "balance-xor", "broadcast"}
	return []option{
		{"miimon", nl.IFLA_BOND_MIIMON, 4, nil},
		{"updelay", nl.IFLA_BOND_UPDELAY, 4, nil},
		{"downdelay", nl.IFLA_BOND_DOWNDELAY, 4, nil},
		{"peer_notif_delay", bondPeerNotifyDelay, 4, nil},
		{"use_carrier", nl.IFLA_BOND_USE_CARRIER, 1, nil},
		{"arp_interval", nl.IFLA_BOND_ARP_INTERVAL, 4, loadless},
		{"arp_ip_target", nl.IFLA_BOND_ARP_IP_TARGET, 0, nil},
		{"ns_ip6_target", bondTargets6, 0, nil},
		{"arp_validate", nl.IFLA_BOND_ARP_VALIDATE, 4, loadless},
		{"arp_all_targets", nl.IFLA_BOND_ARP_ALL_TARGETS, 4, nil},
		{"arp_missed_max", bondMissedMax, 1, loadless},
		{"primary", nl.IFLA_BOND_PRIMARY, 0, first},
		{"primary_reselect", nl.IFLA_BOND_PRIMARY_RESELECT, 1, nil},
		{"fail_over_mac", nl.IFLA_BOND_FAIL_OVER_MAC, 1, nil},
		{"xmit_hash_policy", nl.IFLA_BOND_XMIT_HASH_POLICY, 1, nil},
		{"resend_igmp", nl.IFLA_BOND_RESEND_IGMP, 4, nil},
		{"num_grat_arp", nl.IFLA_BOND_NUM_PEER_NOTIF, 1, nil},
		{"all_slaves_active", nl.IFLA_BOND_ALL_SLAVES_ACTIVE, 1, nil},
		{"min_links", nl.IFLA_BOND_MIN_LINKS, 4, nil},
		{"lp_interval", nl.IFLA_BOND_LP_INTERVAL, 4, nil},
		{"packets_per_slave", nl.IFLA_BOND_PACKETS_PER_SLAVE, 4, []string{"balance-rr"}},
		{"lacp_active", bondLACPActive, 1, lacp},
		{"lacp_rate", nl.IFLA_BOND_AD_LACP_RATE, 1, lacp},
		{"ad_select", nl.IFLA_BOND_AD_SELECT, 1, lacp},
		{"ad_actor_sys_prio", nl.IFLA_BOND_AD_ACTOR_SYS_PRIO, 2, lacp},
		{"ad_user_port_key", nl.IFLA_BOND_AD_USER_PORT_KEY, 2, lacp},
		{"ad_actor_system", nl.IFLA_BOND_AD_ACTOR_SYSTEM, 0, lacp},
		{"tlb_dynamic_lb", nl.IFLA_BOND_TLB_DYNAMIC_LB, 1, []string{"balance-tlb", "balance-alb"}},
	}
}

func showBond(v View, l Link, i *document.Interface) {
	bond := &document.LinkAggregation{Ports: v.portNames(l), Options: map[string]any{}}
	if mode := int(l.Data.Value(nl.IFLA_BOND_MODE)); mode < len(document.BondModes) {
		bond.Mode = document.BondModes[mode]
	}
	for _, o := range bondOptions() {
		if value := o.show(v, l.Data); value != nil && (o.modes == nil || slices.Contains(o.modes, bond.Mode)) {
			bond.Options[o.name] = value
		}
	}
	if l.Data.Value(nl.IFLA_BOND_MIIMON) == 0 {
		maps.DeleteFunc(bond.Options, func(name string, _ any) bool { return ofMII(name) })
	}
	i.Bond = bond
}

// ofMII are the delays, which a bond that does not poll its ports has not: the kernel
// refuses them then, even 0.
func ofMII(option string) bool {
	return option == "updelay" || option == "downdelay" || option == "peer_notif_delay"
}

// show returns the value of an option, a number or a word, nil if it has none.
func (o option) show(v View, data attributes) any {
	switch o.name {
	case "primary":
		if name := v.Names[data.Value(o.attribute)]; name != "" {
			return name
		}
		return nil
	case "arp_ip_target", "ns_ip6_target":
		return targets(data.Get(o.attribute))
	case "ad_actor_system":
		mac := net.HardwareAddr(data.Get(o.attribute))
		if strings.Trim(mac.String(), "0:") == "" {
			return nil // None was set, and the kernel refuses to set it.
		}
		return strings.ToUpper(mac.String())
	}
	number, ok := data.Number(o.attribute)
	if !ok {
		return nil
	}
	if text := compare.Option(o.name, int64(number)); text != strconv.Itoa(int(number)) {
		return text
	}
	return int(number)
}

// targets are addresses with commas, nil for none.
func targets(list attributes) any {
	var words []string
	for _, content := range list.All() {
		if a, ok := netip.AddrFromSlice(content); ok {
			words = append(words, a.String())
		}
	}
	if words == nil {
		return nil
	}
	return strings.Join(words, ",")
}

func bondData(r Request) ([]*nl.RtAttr, error) {
	want := r.Want.Bond
	if want == nil {
		return nil, nil
	}
	var s Settings
	// The kernel sets the mode when it makes a bond.
	if r.Now == nil && want.Mode != "" {
		mode := slices.Index(document.BondModes, want.Mode)
		if mode < 0 {
			return nil, fmt.Errorf(
				"link-aggregation.mode: %s: want one of %s",
				want.Mode,
				strings.Join(document.BondModes, ", "),
			)
		}
		s.Add(Sized(nl.IFLA_BOND_MODE, 1, uint32(mode)))
	}
	for _, name := range slices.Sorted(maps.Keys(want.Options)) {
		if needless(r, name) {
			continue
		}
		attribute, err := optionData(r, name, want.Options[name])
		if err != nil {
			return nil, fmt.Errorf("link-aggregation.options.%s: %w", name, err)
		}
		s.Add(attribute)
	}
	return s, nil
}

// needless: a bond that does not poll its ports has no delays anyway, and a new one has no
// address of its system.
func needless(r Request, name string) bool {
	if name == "ad_actor_system" && compare.Option(name, r.Want.Bond.Options[name]) == "" {
		return true
	}
	miimon, given := r.Want.Bond.Options["miimon"]
	polls := given && compare.Option("miimon", miimon) != "0" ||
		!given && r.Now != nil && r.Now.Data.Value(nl.IFLA_BOND_MIIMON) != 0
	return ofMII(name) && !polls && compare.Option(name, r.Want.Bond.Options[name]) == "0"
}

// optionData makes the attribute of an option.
func optionData(r Request, name string, value any) (*nl.RtAttr, error) {
	options := bondOptions()
	at := slices.IndexFunc(options, func(o option) bool { return o.name == name })
	if at < 0 {
		return nil, notAnOption(name)
	}
	o, text := options[at], compare.Option(name, value)
	switch name {
	case "primary":
		if text == "" {
			return Sized(o.attribute, 4, 0), nil
		}
		return r.Named(o.attribute, text)
	case "arp_ip_target", "ns_ip6_target":
		return targetData(o.attribute, text)
	case "ad_actor_system":
		mac, err := net.ParseMAC(text)
		return nl.NewRtAttr(int(o.attribute), mac), err
	}
	number, err := o.number(text)
	return Sized(o.attribute, o.width, number), err
}

func notAnOption(name string) error {
	switch name {
	case "active_slave":
		return errors.New("the driver chooses the active port: set primary")
	case "num_unsol_na":
		return errors.New("it is the same as num_grat_arp: set that")
	default:
		return errors.New("no option that the engine knows: remove it")
	}
}

// number returns the number of a value, which is a word or decimals.
func (o option) number(text string) (uint32, error) {
	const words = 16 // No option has more.
	for n := range words {
		if compare.Option(o.name, int64(n)) == text {
			return uint32(n), nil
		}
	}
	const bitsOfByte = 8
	n, err := strconv.ParseUint(text, 10, min(o.width*bitsOfByte, 31))
	if err != nil {
		return 0, fmt.Errorf("%q: want a number, or one of the driver's words", text)
	}
	return uint32(n), nil
}

// targetData are addresses, numbered in order.
func targetData(kind uint16, text string) (*nl.RtAttr, error) {
	var list []*nl.RtAttr
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		a, err := netip.ParseAddr(word)
		if err != nil || a.Is4() != (kind == nl.IFLA_BOND_ARP_IP_TARGET) {
			return nil, fmt.Errorf("%s: want addresses of the option's family, with commas between", text)
		}
		list = append(list, nl.NewRtAttr(len(list), a.AsSlice()))
	}
	// An empty list removes those that are.
	return Nested(kind, list), nil
}
