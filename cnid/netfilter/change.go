// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"fmt"
	"net/netip"
	"reflect"

	"github.com/google/nftables"
)

// OnlyFrontends reports whether two states differ in their frontends at most.
func OnlyFrontends(a, b State) bool {
	a.Frontends, b.Frontends = nil, nil
	return reflect.DeepEqual(a, b)
}

// Change does what Apply does where the table holds last, and want differs in its
// frontends only: it reads nothing, and writes what is another one. Where somebody else
// has changed the table it may fail, and Apply puts it right.
func Change(last, want State) error {
	last, want = last.normal(), want.normal()
	if err := want.validate(); err != nil {
		return fmt.Errorf("check packet filter rules: %w", err)
	}
	conn, err := nftables.New(nftables.WithSockOptions(roomy))
	if err != nil {
		return fmt.Errorf("open a socket of nf_tables: %w", err)
	}
	have, needed := variableChains(last), variableChains(want)
	had, clients := clientMaps(last.Frontends), clientMaps(want.Frontends)
	if _, err := addClientMaps(conn, had, clients); err != nil {
		return err
	}
	for name, c := range needed {
		if _, ok := have[name]; !ok {
			addRules(conn, conn.AddChain(&nftables.Chain{Name: name, Table: table()}), c)
		}
	}
	gone, come := changedFrontends(last.Frontends, want.Frontends)
	if err := swapFrontends(conn, gone, come, want.Frontends); err != nil {
		return err
	}
	for name := range have {
		if _, ok := needed[name]; !ok {
			conn.DelChain(&nftables.Chain{Name: name, Table: table()})
		}
	}
	dropClientMaps(conn, had, clients)
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("change ports of services in packet filter table %s: %w", TableName, err)
	}
	return nil
}

// changedFrontends are the frontends of sorted lists that the other one does not have in
// the same way.
func changedFrontends(last, want []Frontend) (gone, come []Frontend) {
	for len(last) > 0 || len(want) > 0 {
		switch order := compareHeads(last, want); {
		case order < 0:
			gone, last = append(gone, last[0]), last[1:]
		case order > 0:
			come, want = append(come, want[0]), want[1:]
		default:
			if !last[0].equal(want[0]) {
				gone, come = append(gone, last[0]), append(come, want[0])
			}
			last, want = last[1:], want[1:]
		}
	}
	return gone, come
}

// compareHeads compares the first of both lists; what is not there comes last.
func compareHeads(a, b []Frontend) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return compareFrontends(a[0], b[0])
}

// swapFrontends puts into the transaction what takes frontends out of the maps and others in.
// What other frontends have as well stays.
func swapFrontends(conn *nftables.Conn, gone, come, all []Frontend) error {
	out, in := contentsOf(gone), contentsOf(come)
	keep(out, gone, all)
	for name := range frontendMaps {
		for _, family := range families() {
			set := mapSet(name, family, 0)
			var found []nftables.SetElement
			for key, to := range out[set.Name] {
				if now, ok := in[set.Name][key]; ok && now == to {
					delete(in[set.Name], key)
					continue
				}
				found = append(found, nftables.SetElement{Key: []byte(key)})
			}
			if _, err := replaceElements(conn, set, found, in[set.Name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep takes out of what is to go what frontends share with others that stay: places,
// and addresses.
func keep(out map[string]contents, gone, all []Frontend) {
	going, addresses := map[placeOf]bool{}, map[netip.Addr]bool{}
	for _, f := range gone {
		for _, place := range f.places() {
			going[placeOf{place, f.Protocol}] = true
		}
		addresses[f.IP] = !f.ofNode()
	}
	for _, f := range all {
		for _, place := range f.places() {
			if going[placeOf{place, f.Protocol}] {
				delete(out[mapName(placesSet, familyOf(single(f.IP)))], keyOf(place.Addr(), f.Protocol, place.Port()))
			}
		}
		if addresses[f.IP] {
			delete(out[mapName(addressesSet, familyOf(single(f.IP)))], keyOf(f.IP, 0, 0))
		}
	}
}

// placeOf is a place for one protocol.
type placeOf struct {
	place    netip.AddrPort
	protocol uint8
}
