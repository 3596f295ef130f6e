// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus/convert"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// Kinds of differences between the desired state of a node and its datapath.
const (
	// MapRowMissing: a row is missing in its map, or differs.
	MapRowMissing Kind = "MapRowMissing"
	// MapRowLeft: a map has a row that belongs to no object.
	MapRowLeft Kind = "MapRowLeft"
	// RoleWithoutMember: a node relies on bouncers or dividers, and lists none.
	RoleWithoutMember Kind = "RoleWithoutMember"
	// ProgramMissing: a program is not attached.
	ProgramMissing Kind = "ProgramMissing"
)

// datapath plans for the node anew, from the present state of the API and the node's own journal
// and devices, and compares the outcome with the rows of its maps.
func (c *comparison) datapath(node string, d *nodestatus.Dump, devices map[string]nodestatus.Link) {
	want := wanted(c.tx, d, devices)
	c.rows(node, want.Rows(), d.Rows)
	c.roles(node, want)
	c.cached(node, d.Cached)
	for _, i := range want.Interfaces {
		for _, filter := range convert.FiltersOf(i) {
			if !slices.Contains(d.Hooks.Filters, filter) {
				c.onNode(
					node,
					ProgramMissing,
					fmt.Sprintf("program %s on device %d", filter.Program, i.Ifindex),
					seeDaemon,
					"is not attached",
				)
			}
		}
	}
	for _, name := range hook.LinkNames() {
		if !slices.Contains(d.Hooks.Links, name) {
			c.onNode(node, ProgramMissing, "program "+name, seeDaemon, "is not attached, or its link is no longer pinned")
		}
	}
}

// wanted returns the state that the datapath of a node has to hold by its own journal and
// devices.
func wanted(tx store.ReadTx, d *nodestatus.Dump, devices map[string]nodestatus.Link) state.State {
	in := plan.Input{
		Config: convert.Config(d.Config), Records: convert.Records(d.Attachments), Removed: convert.Records(d.Removed),
		Devices: map[string]int{}, NodePeer: devices[hostdev.NodePeer].Index, Tables: convert.TablesBack(d.Tables),
	}
	for name, link := range devices {
		in.Devices[name] = link.Index
	}
	return plan.Build(tx, in).Datapath.State()
}

// roles finds roles that a node can't send anything to.
func (c *comparison) roles(node string, want state.State) {
	for _, role := range want.Roles {
		if len(role.Members) > 0 || role.Here && role.Complete {
			continue
		}
		what := fmt.Sprintf("role %d in VNI %d", role.Key.ID, role.Key.VNI)
		at := slices.IndexFunc(
			want.Subnets,
			func(s state.Subnet) bool { return s.VNI == role.Key.VNI && s.Role == role.Key.ID },
		)
		if at >= 0 {
			what = fmt.Sprintf("role of the bouncers of subnet %s in VNI %d", want.Subnets[at].Prefix, role.Key.VNI)
		}
		c.onNode(
			node,
			RoleWithoutMember,
			what,
			"see the condition RolesReady of the Subnet or VPC",
			"has no member that serves: packets to addresses that the node does not know are dropped",
		)
	}
}

func (c *comparison) rows(node string, want, have map[string]string) {
	for key, row := range want {
		held, found := have[key]
		switch {
		case !found:
			c.onNode(node, MapRowMissing, "map row "+key, seeDaemon, "is missing")
		case held != row:
			c.onNode(node, MapRowMissing, "map row "+key, seeDaemon, "is %s, has to be %s", held, row)
		}
	}
	for key := range have {
		if _, found := want[key]; !found {
			c.onNode(node, MapRowLeft, "map row "+key, seeDaemon, "is asked for by nothing")
		}
	}
}
