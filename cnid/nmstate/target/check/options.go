// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"maps"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// checkOptions checks names and values of the options of a bond.
func (p *Problems) checkOptions(path string, bond *document.LinkAggregation) {
	p.checkWatches(path, bond)
	known := compare.BondOptions()
	for _, name := range slices.Sorted(maps.Keys(bond.Options)) {
		value, at := bond.Options[name], path+".options."+quote.Name(name)
		_, object := value.(map[string]any)
		switch text := compare.Option(name, value); {
		case !slices.Contains(known, name):
			p.Add(at, "%s: no option that the engine knows%s: remove it", quote.Name(text), insteadOf(name))
		case object || value == nil:
			p.Add(at, "%v: want a number or a word", value)
		default:
			if want := compare.OptionWants(name, text); want != "" {
				p.Add(at, "%s: want %s", text, want)
			}
		}
	}
}

// checkWatches refuses both ways to watch links together.
func (p *Problems) checkWatches(path string, bond *document.LinkAggregation) {
	if compare.Watches(bond.Options["miimon"]) && compare.Watches(bond.Options["arp_interval"]) {
		p.Add(
			path+".options.arp_interval",
			"%s: a bond with miimon watches its links already: set one of them to 0",
			compare.Option("", bond.Options["arp_interval"]),
		)
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
