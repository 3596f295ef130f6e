// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"errors"
	"fmt"

	"github.com/google/nftables"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
)

// Table writes the packet filter table and keeps the last state, so that the cost of a
// change depends on the changed frontends only. The zero value has no state.
type Table struct {
	// held is the state of the table, nil if it is not known.
	held *ruleset.State
	uses uses
}

// Apply makes the table equal to the state, as the function of that name does.
func (t *Table) Apply(want ruleset.State) (replaced bool, err error) {
	t.held, t.uses = nil, nil
	if replaced, err = Apply(want); err != nil {
		return replaced, err
	}
	t.held, t.uses = &want, uses{}
	t.uses.count(want.Frontends, 1)
	return replaced, nil
}

// errNotHeld: Apply has to be called first.
var errNotHeld = errors.New(
	"what the packet filter table holds is not known, or differs in more than ports of services",
)

// Change does what Apply does if the state differs from the last one in its frontends
// only: it reads nothing and writes the difference. If another program has changed the
// table, Change may fail, and Apply repairs the table.
func (t *Table) Change(want ruleset.State) error {
	if t.held == nil || !ruleset.OnlyFrontends(*t.held, want) {
		return errNotHeld
	}
	gone, come := ruleset.ChangedFrontends(t.held.Frontends, want.Frontends)
	if err := ruleset.ValidateFrontends(come); err != nil {
		return fmt.Errorf("check packet filter rules: %w", err)
	}
	conn, err := nftables.New(nftables.WithSockOptions(roomy))
	if err != nil {
		return fmt.Errorf("open a socket of nf_tables: %w", err)
	}
	delta := uses{}
	delta.count(come, 1)
	delta.count(gone, -1)
	if err := t.put(conn, want, gone, come, delta); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("change ports of services in packet filter table %s: %w", TableName, err)
	}
	t.held = &want
	t.uses.add(delta)
	return nil
}

// put adds the changes of frontends to the transaction. Elements that other frontends
// use stay.
func (t *Table) put(conn *nftables.Conn, want ruleset.State, gone, come []*ruleset.Frontend, delta uses) error {
	first, last := t.uses.changed(delta)
	if _, err := addClientMaps(conn, nil, first.clients); err != nil {
		return err
	}
	for _, f := range come {
		for _, c := range chainsOf(f) {
			if name := c.name(); first.chains[name] {
				delete(first.chains, name)
				addRules(conn, conn.AddChain(&nftables.Chain{Name: name, Table: table()}), c.chain(want))
			}
		}
	}
	out, in := contentsOf(gone), contentsOf(come)
	for set, keys := range out {
		for key := range keys {
			if u := (use{set, key}); t.uses[u]+delta[u] > 0 {
				delete(keys, key)
			}
		}
	}
	if err := swapElements(conn, out, in); err != nil {
		return err
	}
	for name := range last.chains {
		conn.DelChain(&nftables.Chain{Name: name, Table: table()})
	}
	dropClientMaps(conn, last.clients, nil)
	return nil
}

// swapElements adds the replacement of elements of the maps to the transaction.
func swapElements(conn *nftables.Conn, out, in map[string]contents) error {
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
