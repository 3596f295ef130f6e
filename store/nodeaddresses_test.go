// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/alioth-net/alioth/store"
)

// TestNodeAddress_YoungerNodeToo_OlderKeepsIt: the names are in either order, because tables
// are sorted by name.
func TestNodeAddress_YoungerNodeToo_OlderKeepsIt(t *testing.T) {
	shared := netip.MustParseAddr("192.0.2.1")
	for name, created := range map[string]map[string]int64{
		"the first of the names":  {"a": 1, "b": 2},
		"the second of the names": {"a": 2, "b": 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			update(t, s, func(tx store.Tx) error {
				for _, one := range []string{"a", "b"} {
					row := &store.Node{Meta: store.Meta{UID: one, Created: time.Unix(created[one], 0)}, Name: one, AllAddresses: []netip.Addr{shared}}
					if err := store.PutNode(tx, row); err != nil {
						return err
					}
				}
				return nil
			})
			s.View(func(tx store.ReadTx) {
				nodes := store.NodesByAddress(tx)
				if older := nodes[shared]; older == nil || created[older.Name] != 1 || store.NodeWithAddress(tx, shared) != older {
					t.Errorf("the address is that of %+v", older)
				}
				for _, node := range store.ListNodes(tx) {
					doubted := store.DoubtedAddress(tx, nodes, nil, node, shared) != ""
					if doubted != (created[node.Name] == 2) {
						t.Errorf("the address of node %s is doubted: %t", node.Name, doubted)
					}
				}
			})
		})
	}
}
