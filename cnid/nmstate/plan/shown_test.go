// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// TestPlan_ShownState_Reapplicable: also virtual interfaces that are down stay as they are.
func TestPlan_ShownState_Reapplicable(t *testing.T) {
	const shown = `
interfaces:
- {name: br0, type: linux-bridge, state: down, mtu: 1500, bridge: {port: []}}
- {name: d0, type: dummy, state: down, mtu: 1400, ipv4: {enabled: false}, ipv6: {enabled: false}}
- {name: va, type: veth, state: up, mtu: 1500, veth: {peer: vb}}
- {name: vb, type: veth, state: down, mtu: 1500, veth: {peer: va}}
`
	now, desired := parse(t, shown), parse(t, shown)
	to, err := target.Resolve(desired, now)
	if err != nil {
		t.Fatal(err)
	}
	if steps := plan.Between(now, to); len(steps) > 0 {
		t.Errorf("steps: %v", steps)
	}
	// A virtual interface that is up and shall be down is not there afterwards.
	desired.Interfaces[2].State = document.Down
	if to, err = target.Resolve(&document.State{Interfaces: desired.Interfaces[2:3]}, now); err != nil {
		t.Fatal(err)
	}
	if steps := plan.Between(now, to); len(steps) == 0 {
		t.Error("an interface that shall be down stays up")
	}
}
