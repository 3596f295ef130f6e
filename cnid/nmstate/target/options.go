// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/said"
)

// bondOption is what an option of the bonding driver takes. Sources:
// Documentation/networking/bonding.rst and bond_opts of Linux.
type bondOption struct {
	// words are those of its numbers, and least and most its numbers if it has none.
	words       []string
	least, most int
	// truth: it is on or off.
	truth bool
	// check returns what it wants if a text is wrong, for options that are no numbers.
	check func(text string) (want string)
}

const (
	maxInt32 = 1<<31 - 1
	maxUint8 = 1<<8 - 1
	primary  = "primary"

	actorSystem = "ad_actor_system"
	// noMAC as actorSystem is none, which a new bond has.
	noMAC = "00:00:00:00:00:00"

	failOverMAC = "fail_over_mac"
)

// bondOptions are the options that documents may have.
func bondOptions() map[string]bondOption {
	const maxNotify, maxKey = 300_000, 1023
	return map[string]bondOption{
		"miimon": {most: maxInt32}, "updelay": {most: maxInt32}, "downdelay": {most: maxInt32}, "min_links": {most: maxInt32},
		"arp_interval": {most: maxInt32}, "lp_interval": {least: 1, most: maxInt32}, "peer_notif_delay": {most: maxNotify},
		"arp_missed_max": {least: 1, most: maxUint8}, "resend_igmp": {most: maxUint8}, "num_grat_arp": {most: maxUint8},
		"packets_per_slave": {most: maxUint16}, "ad_actor_sys_prio": {least: 1, most: maxUint16}, "ad_user_port_key": {most: maxKey},
		"use_carrier": {most: 1, truth: true}, "tlb_dynamic_lb": {most: 1, truth: true},

		"lacp_active": {words: []string{"off", "on"}, truth: true}, "lacp_rate": {words: []string{"slow", "fast"}},
		"xmit_hash_policy": {words: []string{"layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"}},
		"ad_select":        {words: []string{"stable", "bandwidth", "count"}},
		failOverMAC:        {words: []string{"none", "active", "follow"}}, "primary_reselect": {words: []string{"always", "better", "failure"}},
		"arp_all_targets":   {words: []string{"any", "all"}},
		"arp_validate":      {words: []string{"none", "active", "backup", "all", "filter", "filter_active", "filter_backup"}},
		"all_slaves_active": {words: []string{"dropped", "delivered"}},

		primary: {check: func(string) string { return "" }}, actorSystem: {check: macWanted},
		"arp_ip_target": {check: targetsWanted(ipfamily.IPv4)}, "ns_ip6_target": {check: targetsWanted(ipfamily.IPv6)},
	}
}

func macWanted(text string) string {
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
			if ip, err := parseAddress(word); err != nil || !family.Has(ip) {
				return "addresses of " + family.String() + ", with commas between"
			}
		}
		return ""
	}
}

// BondOptions are the names of the options of a bond that documents may have.
func BondOptions() []string { return sorted(options()) }

// options has bondOptions once.
var options = sync.OnceValue(bondOptions)

func optionWords(option string) []string { return options()[option].words }

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

// Option returns the value of an option of a bond in the one form in which values are
// compared: the word where the option has words, and the number in decimals elsewhere.
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
	words := optionWords(name)
	if n, err := strconv.Atoi(text); err == nil && n >= 0 && n < len(words) {
		return words[n]
	}
	if name == actorSystem {
		text = canonicalMAC(text)
		if text == noMAC {
			return ""
		}
	}
	return text
}

// checkOptions checks names and values of the options of a bond.
func (p *problems) checkOptions(path string, bond *document.LinkAggregation) {
	p.checkWatches(path, bond)
	for _, name := range sorted(bond.Options) {
		value, at := bond.Options[name], path+".options."+said.Name(name)
		o, known := options()[name]
		_, object := value.(map[string]any)
		switch text := Option(name, value); {
		case !known:
			p.add(at, "%s: no option that the engine knows%s: remove it", said.Name(text), insteadOf(name))
		case object || value == nil:
			p.add(at, "%v: want a number or a word", value)
		case o.words != nil:
			p.word(at, text, o.words...)
		case o.check != nil:
			if want := o.check(text); want != "" {
				p.add(at, "%s: want %s", text, want)
			}
		default:
			p.checkNumber(at, text, o)
		}
	}
}

// checkWatches refuses both ways to watch links together.
func (p *problems) checkWatches(path string, bond *document.LinkAggregation) {
	if watches(bond.Options["miimon"]) && watches(bond.Options["arp_interval"]) {
		p.add(path+".options.arp_interval", "%s: a bond with miimon watches its links already: set one of them to 0", Option("", bond.Options["arp_interval"]))
	}
}

func (p *problems) checkNumber(at, text string, o bondOption) {
	if n, err := strconv.Atoi(text); err != nil || n < o.least || n > o.most {
		p.add(at, "%s: want a number, %d to %d", text, o.least, o.most)
	}
}

// insteadOf tells what to set instead of an option that documents can't have.
func insteadOf(name string) string {
	switch name {
	case "active_slave":
		return " (the driver chooses the active port; primary is its preference)"
	case "num_unsol_na":
		return " (it is the same as num_grat_arp)"
	default:
		return ""
	}
}

// general are the options that all modes have.
func general() []string {
	return []string{"miimon", "updelay", "downdelay", "use_carrier", "min_links", "all_slaves_active", "resend_igmp", "peer_notif_delay"}
}

// normalizeOptions writes options as words, and leaves out current ones that the desired
// ones do not go with: those of another mode, and those of the other way to watch links.
func normalizeOptions(merged, want, have *document.LinkAggregation) {
	desired := map[string]any{}
	if want != nil {
		desired = want.Options
	}
	otherMode := have != nil && have.Mode != merged.Mode
	arp, mii := watches(desired["arp_interval"]), watches(desired["miimon"])
	for name, value := range merged.Options {
		_, chosen := desired[name]
		ofMII := slices.Contains([]string{"miimon", "updelay", "downdelay"}, name)
		switch {
		case !chosen && (otherMode && !slices.Contains(general(), name) || arp && ofMII || mii && strings.HasPrefix(name, "arp_")):
			delete(merged.Options, name)
		case optionWords(name) != nil:
			merged.Options[name] = Option(name, value)
		}
	}
}

// watches reports whether an interval turns a way to watch links on.
func watches(interval any) bool {
	text := Option("", interval)
	return text != "" && text != "0"
}
