// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"net/netip"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
)

// use is an object that several frontends may share: an element of the named set, or a
// chain or a map of clients, of one of the kinds below.
type use struct{ of, name string }

const chainsInUse, clientsInUse = "chains", "clients"

// uses counts how many times each is used.
type uses map[use]int

// count adds what frontends use, n times.
func (u uses) count(frontends []*ruleset.Frontend, n int) {
	for _, f := range frontends {
		family := ipfamily.Of(f.IP).Number()
		for _, c := range chainsOf(f) {
			u[use{chainsInUse, c.name()}] += n
		}
		for name := range clientMaps([]*ruleset.Frontend{f}) {
			u[use{clientsInUse, name}] += n
		}
		for _, list := range [][]netip.AddrPort{f.All, f.Own, f.Here} {
			for _, place := range list {
				u[use{mapName(placesSet, family), keyOf(place.Addr(), f.Protocol, place.Port())}] += n
			}
		}
		if !f.OfNode() {
			u[use{mapName(addressesSet, family), keyOf(f.IP, 0, 0)}] += n
		}
	}
}

// add adds other counts, and removes unused objects.
func (u uses) add(delta uses) {
	for what, n := range delta {
		if u[what] += n; u[what] == 0 {
			delete(u, what)
		}
	}
}

// ofTable are names of chains and of maps of clients.
type ofTable struct{ chains, clients map[string]bool }

// changed returns the objects that become used, and those that become unused, by adding
// other counts.
func (u uses) changed(delta uses) (first, last ofTable) {
	first = ofTable{map[string]bool{}, map[string]bool{}}
	last = ofTable{map[string]bool{}, map[string]bool{}}
	for what, n := range delta {
		before, to := u[what] > 0, first
		if after := u[what]+n > 0; before == after {
			continue
		} else if before {
			to = last
		}
		switch what.of {
		case chainsInUse:
			to.chains[what.name] = true
		case clientsInUse:
			to.clients[what.name] = true
		}
	}
	return first, last
}
