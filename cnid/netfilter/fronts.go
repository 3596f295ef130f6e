// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Front is an address and port that leads from outside, and from this node, to the
// backends of a Service.
type Front struct {
	// Protocol is IPPROTO_TCP (6) or IPPROTO_UDP (17).
	Protocol uint8
	// IP is the destination. The unspecified address of a family (0.0.0.0, ::)
	// stands for all that the node has, loopback left out.
	IP netip.Addr
	// Port is 1 to 65535.
	Port uint16
	// All are the places where a new flow goes, each as often as another: a backend
	// of this node by its shadow and port; for each backend of another node the
	// address of that node in the default VPC and the port at which it takes what
	// other nodes send it; for a pod on the network of this node the node's own
	// address and the pod's port. Where there is none, flows are refused.
	All []netip.AddrPort
	// Own are the places for what the node itself asks, if they are not All: they may
	// have a port of another node at an address outside of the default VPC, which
	// sees this node's own address. nil: All.
	Own []netip.AddrPort
	// Here are those of this node. What another node has sent here goes to no
	// others.
	Here []netip.AddrPort
	// Local: what comes from outside goes to Here alone, under its own source. Where
	// another node has a place and this one has none, it is dropped. What the node
	// itself asks keeps its source too.
	Local bool
	// Hidden are sources that a backend is not shown though the front is Local: it
	// could not answer them.
	Hidden []netip.Prefix
	// Sources are who may ask from outside; nil: everybody.
	Sources []netip.Prefix
	// Affinity is for how long after its last new flow an address that asks gets the
	// same place, if that is one still; whole seconds, 0: not at all.
	Affinity time.Duration
	// VNI is that of the VPC in which the backends are: what is remembered of its
	// clients takes no room from another VPC's. 0 without Affinity.
	VNI uint32
}

// maxSlots bounds All, Own and Here. It is as many as a Service has backends at most.
const maxSlots = 1000

func (f Front) validate() error {
	switch {
	case f.Protocol != unix.IPPROTO_TCP && f.Protocol != unix.IPPROTO_UDP:
		return fmt.Errorf("protocol %d is not TCP or UDP", f.Protocol)
	case !f.IP.IsValid() || f.Port == 0:
		return errors.New("no address or no port")
	case f.Affinity < 0 || f.Affinity%time.Second != 0 || (f.Affinity == 0) != (f.VNI == 0):
		return fmt.Errorf("affinity %s is not whole seconds of a VPC, whose VNI is %d", f.Affinity, f.VNI)
	case max(len(f.All), len(f.Own), len(f.Here)) > maxSlots:
		return fmt.Errorf("more than %d places to go to", maxSlots)
	}
	for _, place := range f.places() {
		if place.Addr().Is4() != f.IP.Is4() || place.Port() == 0 {
			return fmt.Errorf("%v is no place of the family of %v", place, f.IP)
		}
	}
	return nil
}

// places are all that there are, whoever asks.
func (f Front) places() []netip.AddrPort { return slices.Concat(f.All, f.Own, f.Here) }

func compareFronts(a, b Front) int {
	return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
}

// equal compares all fields. There are thousands to be compared with each change.
func (f Front) equal(o Front) bool {
	return f.Protocol == o.Protocol && f.IP == o.IP && f.Port == o.Port && f.Local == o.Local && f.Affinity == o.Affinity && f.VNI == o.VNI &&
		slices.Equal(f.All, o.All) && slices.Equal(f.Own, o.Own) && slices.Equal(f.Here, o.Here) && slices.Equal(f.Hidden, o.Hidden) &&
		slices.Equal(f.Sources, o.Sources) && (f.Sources == nil) == (o.Sources == nil)
}

// sortedFronts are the fronts in the order of their keys, of each key the first.
func sortedFronts(list []Front) []Front {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, compareFronts)
	return slices.CompactFunc(sorted, func(a, b Front) bool { return compareFronts(a, b) == 0 })
}

// ofNode reports whether the front is at all of the node's addresses.
func (f Front) ofNode() bool { return f.IP.IsUnspecified() }

// fromOutside is the chain to which what comes from outside goes.
func (f Front) fromOutside() string {
	switch {
	case !f.Local:
		return f.chainFor(allPlaces, f.All)
	case len(f.All) > 0 && len(f.Here) == 0:
		return nobodyHereChain
	}
	return f.chainFor(placesHere, f.Here)
}

// shows is how the front shows who asks from outside, if it does.
func (f Front) shows() (shown, bool) {
	return shown{hidden: fmt.Sprint(f.Hidden)}, f.Local && len(f.Here) > 0
}

// shown is what backends are shown of who asks from outside: the address itself,
// unless it is hidden.
type shown struct {
	// hidden is the text of the ranges.
	hidden string
}

func (s shown) name() string { return named("show", s.hidden) }

// mayAsk is who may ask the front from outside.
func (f Front) mayAsk() asker { return asker{sources: fmt.Sprint(f.Sources)} }

// asker is who may ask a front, as the text of the ranges.
type asker struct{ sources string }

func (a asker) name() string { return named("ask", a.sources) }

// named is the name of a chain that is made from a text.
func named(kind, text string) string {
	return fmt.Sprintf("%s%s_%x", variablePrefix, kind, sha256.Sum256([]byte(text)))[:28]
}

// pick describes the chain that picks one of the places.
func (f Front) pick(from string, places []netip.AddrPort) pick {
	return pick{from: from, ofNode: f.ofNode(), affinity: f.Affinity, vni: f.VNI, slots: len(places)}
}

// chainFor is the chain to which the front leads.
func (f Front) chainFor(from string, places []netip.AddrPort) string {
	if len(places) == 0 {
		return refusedChain
	}
	return f.pick(from, places).name()
}

// pick is how one of a number of places is picked, whatever the front is.
type pick struct {
	// from is the map that has the places.
	from   string
	ofNode bool
	// affinity and vni are the front's.
	affinity time.Duration
	vni      uint32
	// slots is the number of places, 1 to maxSlots.
	slots int
}

// variablePrefix begins the names of chains that only some fronts need, and of no
// others.
const variablePrefix = "front_"

func (p pick) name() string {
	name := variablePrefix + p.from
	if p.ofNode {
		name += "_node"
	}
	if p.affinity > 0 {
		name += fmt.Sprintf("_sticky_%d_%d", p.affinity/time.Second, p.vni)
	}
	return fmt.Sprintf("%s_%d", name, p.slots)
}

// variableChains are those that the fronts of a state need, by their names.
func variableChains(s State) map[string]chain {
	picks, shows, asks := map[pick]bool{}, map[shown][]netip.Prefix{}, map[asker][]netip.Prefix{}
	for _, f := range s.Fronts {
		picks[f.pick(allPlaces, f.All)] = true
		picks[f.pick(ownPlaces, f.Own)] = true
		if f.ofNode() || f.Local {
			picks[f.pick(placesHere, f.Here)] = true
		}
		if show, ok := f.shows(); ok {
			shows[show] = f.Hidden
		}
		if f.Sources != nil {
			asks[f.mayAsk()] = f.Sources
		}
	}
	needed := map[string]chain{}
	for p := range picks {
		if p.slots > 0 {
			needed[p.name()] = p.chain()
		}
	}
	for show, hidden := range shows {
		needed[show.name()] = showChain(s, show.name(), hidden)
	}
	for ask, sources := range asks {
		needed[ask.name()] = askChain(ask.name(), sources)
	}
	return needed
}
