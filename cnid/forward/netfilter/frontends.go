// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
)

// outsideChainFor is the chain for packets from outside.
func outsideChainFor(f *ruleset.Frontend) string {
	switch {
	case !f.Local:
		return chainFor(f, allPlaces, f.All)
	case len(f.All) > 0 && len(f.Here) == 0:
		return noLocalEndpointChain
	}
	return chainFor(f, placesHere, f.Here)
}

// preserve is the chain that keeps the addresses of clients, unless they are hidden.
type preserve struct{ hidden []netip.Prefix }

func (p preserve) name() string { return named("preserve", fmt.Sprint(p.hidden)) }

// sourceRanges is the chain that drops clients from outside that are not in a range.
type sourceRanges struct{ list []netip.Prefix }

func (r sourceRanges) name() string { return named("sources", fmt.Sprint(r.list)) }

// named is the name of a chain that is made from a text.
func named(kind, text string) string {
	return fmt.Sprintf("%s%s_%x", variablePrefix, kind, sha256.Sum256([]byte(text)))[:28]
}

// pickFrom describes the chain that picks one of the places.
func pickFrom(f *ruleset.Frontend, from string, places []netip.AddrPort) pick {
	return pick{from: from, ofNode: f.OfNode(), affinity: f.Affinity, vni: f.VNI, slots: len(places)}
}

// chainFor returns the name of the chain for packets to the frontend.
func chainFor(f *ruleset.Frontend, from string, places []netip.AddrPort) string {
	if len(places) == 0 {
		return refusedChain
	}
	return pickFrom(f, from, places).name()
}

// pick describes how one of several places is picked, for any frontend.
type pick struct {
	// from is the map that has the places.
	from   string
	ofNode bool
	// affinity and vni are the frontend's.
	affinity time.Duration
	vni      uint32
	// slots is the number of places, 1 to ruleset.MaxSlots.
	slots int
}

// variablePrefix begins the names of chains that only some frontends need, and of no
// others.
const variablePrefix = "frontend_"

func (p pick) name() string {
	name := variablePrefix + p.from
	if p.ofNode {
		name += "_node"
	}
	if p.affinity > 0 {
		name += fmt.Sprintf("_sticky_%d_%d", p.affinity/time.Second, p.vni)
	}
	return name + "_" + strconv.Itoa(p.slots)
}

// variableChain is a chain that only some frontends need.
type variableChain interface {
	name() string
	chain(s ruleset.State) chain
}

// chainsOf are those that a frontend needs beside those that are always there.
func chainsOf(f *ruleset.Frontend) []variableChain {
	list := make([]variableChain, 0, 3)
	if len(f.All) > 0 {
		list = append(list, pickFrom(f, allPlaces, f.All))
	}
	if len(f.Own) > 0 {
		list = append(list, pickFrom(f, ownPlaces, f.Own))
	}
	if (f.OfNode() || f.Local) && len(f.Here) > 0 {
		list = append(list, pickFrom(f, placesHere, f.Here))
	}
	if f.Preserves() {
		list = append(list, preserve{f.Hidden})
	}
	if f.Sources != nil {
		list = append(list, sourceRanges{f.Sources})
	}
	return list
}

// variableChains are those that the frontends of a state need, by their names.
func variableChains(s ruleset.State) map[string]chain {
	needed := map[string]chain{}
	for _, f := range s.Frontends {
		for _, c := range chainsOf(f) {
			name := c.name()
			if _, known := needed[name]; !known {
				needed[name] = c.chain(s)
			}
		}
	}
	return needed
}
