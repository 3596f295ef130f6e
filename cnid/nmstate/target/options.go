// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// optionWords returns the words of an option of the bonding driver, by its numbers. Source:
// Documentation/networking/bonding.rst of Linux.
func optionWords(option string) []string {
	switch option {
	case "lacp_rate":
		return []string{"slow", "fast"}
	case "lacp_active":
		return []string{"off", "on"}
	case "xmit_hash_policy":
		return []string{"layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"}
	case "ad_select":
		return []string{"stable", "bandwidth", "count"}
	case "fail_over_mac":
		return []string{"none", "active", "follow"}
	case "primary_reselect":
		return []string{"always", "better", "failure"}
	case "arp_all_targets":
		return []string{"any", "all"}
	case "arp_validate":
		return []string{"none", "active", "backup", "all", "filter", "filter_active", "filter_backup"}
	case "all_slaves_active":
		return []string{"dropped", "delivered"}
	default:
		return nil
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
	words := optionWords(name)
	if n, err := strconv.Atoi(text); err == nil && n >= 0 && n < len(words) {
		return words[n]
	}
	return text
}

// checkOptions checks the options that have words. The kernel knows about others.
func (p *problems) checkOptions(path string, bond *document.LinkAggregation) {
	for name, value := range bond.Options {
		words := optionWords(name)
		if len(words) > 0 && name != "all_slaves_active" && name != "lacp_active" {
			p.word(path+".options."+name, Option(name, value), words...)
		}
		if _, object := value.(map[string]any); object || value == nil {
			p.add(path+".options."+name, "%v: want a number or a word", value)
		}
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
