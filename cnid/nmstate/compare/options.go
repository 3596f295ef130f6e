// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alioth-net/alioth/api/ipfamily"
)

// bondOption describes the permitted values of an option of the bonding driver. Sources:
// Documentation/networking/bonding.rst and bond_opts of Linux.
type bondOption struct {
	// words are the words of its numbers. least and most are the limits of a number without
	// words.
	words       []string
	least, most int
	// truth: it is on or off.
	truth bool
	// check returns the expected form if a text is wrong. Only options without numbers have it.
	check func(text string) (want string)
}

// bondOptions are the options that documents may have.
func bondOptions() map[string]bondOption {
	const maxNotify, maxKey = 300_000, 1023
	return map[string]bondOption{
		"miimon": {
			most: math.MaxInt32,
		}, "updelay": {most: math.MaxInt32}, "downdelay": {most: math.MaxInt32}, "min_links": {most: math.MaxInt32},
		"arp_interval": {
			most: math.MaxInt32,
		}, "lp_interval": {least: 1, most: math.MaxInt32}, "peer_notif_delay": {most: maxNotify},
		"arp_missed_max": {
			least: 1,
			most:  math.MaxUint8,
		}, "resend_igmp": {most: math.MaxUint8}, "num_grat_arp": {most: math.MaxUint8},
		"packets_per_slave": {
			most: math.MaxUint16,
		}, "ad_actor_sys_prio": {least: 1, most: math.MaxUint16}, "ad_user_port_key": {most: maxKey},
		"use_carrier": {most: 1, truth: true}, "tlb_dynamic_lb": {most: 1, truth: true},

		"lacp_active": {words: []string{"off", "on"}, truth: true}, "lacp_rate": {words: []string{"slow", "fast"}},
		"xmit_hash_policy": {words: []string{"layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"}},
		"ad_select":        {words: []string{"stable", "bandwidth", "count"}},
		FailOverMAC: {
			words: []string{"none", "active", "follow"},
		}, "primary_reselect": {words: []string{"always", "better", "failure"}},
		"arp_all_targets":   {words: []string{"any", "all"}},
		"arp_validate":      {words: []string{"none", "active", "backup", "all", "filter", "filter_active", "filter_backup"}},
		"all_slaves_active": {words: []string{"dropped", "delivered"}},

		primary: {check: func(string) string { return "" }}, actorSystem: {check: macWanted},
		"arp_ip_target": {check: targetsWanted(ipfamily.IPv4)}, "ns_ip6_target": {check: targetsWanted(ipfamily.IPv6)},
	}
}

func macWanted(text string) string {
	const octets = 6
	mac, err := net.ParseMAC(text)
	switch {
	case text == "": // none
		return ""
	case err != nil || len(mac) != octets:
		return "six octets in hex with colons"
	case mac[0]&1 != 0:
		return "no address of a group"
	default:
		return ""
	}
}

// targetsWanted is the check of a list of addresses of one family, which may be empty.
func targetsWanted(family ipfamily.Family) func(string) string {
	return func(text string) string {
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' }) {
			if ip, err := ParseAddress(word); err != nil || !family.Has(ip) {
				return "addresses of " + family.String() + ", with commas between"
			}
		}
		return ""
	}
}

// BondOptions are the names of the options of a bond that documents may have.
func BondOptions() []string { return slices.Sorted(maps.Keys(options())) }

// options has bondOptions once.
var options = sync.OnceValue(bondOptions)

// OptionWants returns the values that an option takes, "" if the value of this text is one of
// them. The text is the one that Option returns.
func OptionWants(option, text string) string {
	o := options()[option]
	switch {
	case o.check != nil:
		return o.check(text)
	case o.words != nil:
		if text != "" && !slices.Contains(o.words, text) {
			return "one of " + strings.Join(o.words, ", ")
		}
	default:
		if n, err := strconv.Atoi(text); err != nil || n < o.least || n > o.most {
			return fmt.Sprintf("a number, %d to %d", o.least, o.most)
		}
	}
	return ""
}

// OptionWords returns the words of an option that takes words, in the order of their numbers.
func OptionWords(option string) []string { return options()[option].words }

// bit is the number of a word that says whether an option is on, and other texts as they are.
func bit(text string) string {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "y":
		return "1"
	case "false", "no", "off", "n":
		return "0"
	default:
		return text
	}
}

// Option returns the value of a bond's option in the form for comparisons: the word where the
// option has words, and the number in decimals elsewhere.
func Option(name string, value any) string {
	text := fmt.Sprint(value)
	switch v := value.(type) {
	case nil:
		return ""
	case bool:
		text = "0"
		if v {
			text = "1"
		}
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		text = strings.ReplaceAll(strings.Trim(text, "[]"), " ", ",")
	}
	if options()[name].truth {
		text = bit(text)
	}
	words := OptionWords(name)
	if n, err := strconv.Atoi(text); err == nil && n >= 0 && n < len(words) {
		return words[n]
	}
	if name == actorSystem {
		text = CanonicalMAC(text)
		if text == noMAC {
			return ""
		}
	}
	return text
}

// Watches reports whether an interval turns a way to watch links on.
func Watches(interval any) bool {
	text := Option("", interval)
	return text != "" && text != "0"
}

// Names of options that need more than a comparison.
const (
	primary     = "primary"
	actorSystem = "ad_actor_system"
	// noMAC is the actorSystem of a new bond, and means that it has not been set.
	noMAC = "00:00:00:00:00:00"

	// FailOverMAC is the option that selects the MAC address of a bond.
	FailOverMAC = "fail_over_mac"
)
