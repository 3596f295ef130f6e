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
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Frontend is an address and port that leads from outside, and from this node, to the
// backends of a Service. Within a State it is never changed: another one takes its place.
type Frontend struct {
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
	// Hidden are sources that are not preserved though the frontend is Local: a backend
	// could not answer them.
	Hidden []netip.Prefix
	// Sources are the ranges of clients outside that are served; nil: all clients.
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

func (f *Frontend) validate() error {
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
func (f *Frontend) places() []netip.AddrPort { return slices.Concat(f.All, f.Own, f.Here) }

// Compare orders frontends by address, protocol and port, of which a packet has one each.
func (f *Frontend) Compare(o *Frontend) int {
	return cmp.Or(f.IP.Compare(o.IP), cmp.Compare(f.Protocol, o.Protocol), cmp.Compare(f.Port, o.Port))
}

// Equal compares all fields.
func (f *Frontend) Equal(o *Frontend) bool {
	return f == o || f.Compare(o) == 0 && f.Local == o.Local && f.Affinity == o.Affinity && f.VNI == o.VNI &&
		slices.Equal(f.All, o.All) && slices.Equal(f.Own, o.Own) && slices.Equal(f.Here, o.Here) && slices.Equal(f.Hidden, o.Hidden) &&
		slices.Equal(f.Sources, o.Sources) && (f.Sources == nil) == (o.Sources == nil)
}

// ofNode reports whether the frontend is at all of the node's addresses.
func (f *Frontend) ofNode() bool { return f.IP.IsUnspecified() }

// fromOutside is the chain to which what comes from outside goes.
func (f *Frontend) fromOutside() string {
	switch {
	case !f.Local:
		return f.chainFor(allPlaces, f.All)
	case len(f.All) > 0 && len(f.Here) == 0:
		return noLocalEndpointChain
	}
	return f.chainFor(placesHere, f.Here)
}

// preserves reports whether the frontend preserves the addresses of clients from outside.
func (f *Frontend) preserves() bool { return f.Local && len(f.Here) > 0 }

// preserve is the chain that keeps the addresses of clients, unless they are hidden.
type preserve struct{ hidden []netip.Prefix }

func (p preserve) name() string { return named("preserve", fmt.Sprint(p.hidden)) }

// sourceRanges is the chain that drops clients from outside that are in none of the ranges.
type sourceRanges struct{ list []netip.Prefix }

func (r sourceRanges) name() string { return named("sources", fmt.Sprint(r.list)) }

// named is the name of a chain that is made from a text.
func named(kind, text string) string {
	return fmt.Sprintf("%s%s_%x", variablePrefix, kind, sha256.Sum256([]byte(text)))[:28]
}

// pick describes the chain that picks one of the places.
func (f *Frontend) pick(from string, places []netip.AddrPort) pick {
	return pick{from: from, ofNode: f.ofNode(), affinity: f.Affinity, vni: f.VNI, slots: len(places)}
}

// chainFor is the chain to which the frontend leads.
func (f *Frontend) chainFor(from string, places []netip.AddrPort) string {
	if len(places) == 0 {
		return refusedChain
	}
	return f.pick(from, places).name()
}

// pick is how one of a number of places is picked, whatever the frontend is.
type pick struct {
	// from is the map that has the places.
	from   string
	ofNode bool
	// affinity and vni are the frontend's.
	affinity time.Duration
	vni      uint32
	// slots is the number of places, 1 to maxSlots.
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
	chain(s State) chain
}

// chains are those that the frontend needs beside those that are always there.
func (f *Frontend) chains() []variableChain {
	list := make([]variableChain, 0, 3)
	if len(f.All) > 0 {
		list = append(list, f.pick(allPlaces, f.All))
	}
	if len(f.Own) > 0 {
		list = append(list, f.pick(ownPlaces, f.Own))
	}
	if (f.ofNode() || f.Local) && len(f.Here) > 0 {
		list = append(list, f.pick(placesHere, f.Here))
	}
	if f.preserves() {
		list = append(list, preserve{f.Hidden})
	}
	if f.Sources != nil {
		list = append(list, sourceRanges{f.Sources})
	}
	return list
}

// variableChains are those that the frontends of a state need, by their names.
func variableChains(s State) map[string]chain {
	needed := map[string]chain{}
	for _, f := range s.Frontends {
		for _, c := range f.chains() {
			name := c.name()
			if _, known := needed[name]; !known {
				needed[name] = c.chain(s)
			}
		}
	}
	return needed
}
