// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostlink

import (
	"fmt"
	"testing"

	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// TestLinkLimit_Namespace_OldestServed: the oldest ones, whatever the order of the names, and nothing of
// another namespace. A link that is gone makes room for the next.
func TestLinkLimit_Namespace_OldestServed(t *testing.T) {
	var rows []any
	link := func(i int) multinet.LinkID {
		return multinet.LinkID{Device: "ens4", Type: multinet.VLAN, VNI: uint32(100 + i)}
	}
	define := func(namespace string, i, number int) *multinet.Definition {
		name := fmt.Sprintf("n%02d", 50-i)
		return &multinet.Definition{
			Meta: operatortest.Meta("uid-"+namespace+name, i), Namespace: namespace, Name: name, Link: link(number),
			Config: fmt.Sprintf(`{"cniVersion":"1.0.0","type":"macvlan","master":"ens4","vlan":%d}`, 100+number),
		}
	}
	for i := range 4 {
		rows = append(rows, define("a", i, i))
	}
	rows = append(rows, define("a", 9, 0), define("b", 9, 9), plain("a"), plain("b"), &multinet.Grant{
		Meta: operatortest.Meta("grant", 0), Name: "g", Namespaces: []string{"a", "b"}, Plugins: []string{"macvlan"},
	})
	r := &Reconciler{Delegation: true, Numbers: 2}
	made := func(tx store.ReadTx) (all []int) {
		for _, i := range []int{0, 1, 2, 3, 9} {
			if r.wanted(tx, link(i)) != nil {
				all = append(all, i)
			}
		}
		return all
	}
	operatortest.New(t, rows...).View(func(tx store.ReadTx) {
		if got := fmt.Sprint(made(tx)); got != "[0 1 9]" {
			t.Errorf("the links %s are made", got)
		}
		if requests := ofNextDefinitions(tx, rows[3].(*multinet.Definition), 2); len(requests) != 0 {
			t.Errorf("one above the limit makes room for %v", requests)
		}
	})
	gone := rows[1].(*multinet.Definition)
	operatortest.New(t, append(rows[2:], rows[0])...).View(func(tx store.ReadTx) {
		if got := fmt.Sprint(made(tx)); got != "[0 2 9]" {
			t.Errorf("without one of them the links %s are made", got)
		}
		if requests := ofNextDefinitions(tx, gone, 2); len(requests) != 2 || requests[1] != request(link(2))[0] {
			t.Errorf("requested is %v", requests)
		}
	})
}
