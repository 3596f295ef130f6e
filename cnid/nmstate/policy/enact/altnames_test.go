// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package enact

import (
	"testing"
)

// TestPolicyUndo_AlternativeName_Undone: an undo goes by names, as the state before does.
func TestPolicyUndo_AlternativeName_Undone(t *testing.T) {
	const before = `interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1500, alt-names: [{name: port1}]}]`
	c := newCluster(t, "n1")
	c.current(before)
	c.put("a", `interfaces: [{name: port1, mtu: 1400}]`)
	c.settle()
	same(t, "the network", c.states["n1"].Current, `interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1400, alt-names: [{name: port1}]}]`)
	delete(c.policies, ref("a"))
	c.settle()
	same(t, "the network at the end", c.states["n1"].Current, before)
}
