// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// general are the options that all modes have.
func general() []string {
	return []string{
		"miimon",
		"updelay",
		"downdelay",
		"use_carrier",
		"min_links",
		"all_slaves_active",
		"resend_igmp",
		"peer_notif_delay",
	}
}

// normalizeOptions writes options as words. It leaves out current options that contradict the
// desired ones: options of another mode, and options of the other way to watch links.
func normalizeOptions(merged, want, have *document.LinkAggregation) {
	desired := map[string]any{}
	if want != nil {
		desired = want.Options
	}
	otherMode := have != nil && have.Mode != merged.Mode
	arp, mii := compare.Watches(desired["arp_interval"]), compare.Watches(desired["miimon"])
	for name, value := range merged.Options {
		_, chosen := desired[name]
		ofMII := slices.Contains([]string{"miimon", "updelay", "downdelay"}, name)
		switch {
		case !chosen && (otherMode && !slices.Contains(general(), name) || arp && ofMII || mii && strings.HasPrefix(name, "arp_")):
			delete(merged.Options, name)
		case compare.OptionWords(name) != nil:
			merged.Options[name] = compare.Option(name, value)
		}
	}
}
