// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/cnid/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/cnid/nodestatus/convert"
	"github.com/alioth-net/alioth/cnid/plan"
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
	// ProgramMissing: a program is not attached.
	ProgramMissing Kind = "ProgramMissing"
)

// datapath plans for the node anew, from the API as it is now and the node's
// own journal and devices, and compares the outcome with what its maps hold.
func (c *comparison) datapath(node string, d *nodestatus.Dump, devices map[string]nodestatus.Link) {
	want := wanted(c.tx, d, devices)
	c.rows(node, rowsOf(convert.Maps(want)), rowsOf(d.Datapath))
	for _, i := range want.Interfaces {
		for _, filter := range convert.FiltersOf(i) {
			if !slices.Contains(d.Hooks.Filters, filter) {
				c.onNode(node, ProgramMissing, fmt.Sprintf("program %s on device %d", filter.Program, i.Ifindex), seeDaemon, "is not attached")
			}
		}
	}
	for _, name := range hook.LinkNames() {
		if !slices.Contains(d.Hooks.Links, name) {
			c.onNode(node, ProgramMissing, "program "+name, seeDaemon, "is not attached, or its link is no longer pinned")
		}
	}
}

// wanted returns what the datapath of a node has to hold by its own journal and devices.
func wanted(tx store.ReadTx, d *nodestatus.Dump, devices map[string]nodestatus.Link) state.State {
	in := plan.Input{
		Config: convert.Config(d.Config), Records: convert.Records(d.Attachments), Departed: convert.Records(d.Departed),
		Devices: map[string]int{}, NodePeer: devices[hostdev.NodePeer].Index,
	}
	for name, link := range devices {
		in.Devices[name] = link.Index
	}
	return plan.Build(tx, in).Datapath.State()
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

// mapRows are rows as text, by the text of their keys.
type mapRows map[string]string

// rowsOf returns the rows of all maps, in a form that does not depend on the order of
// anything.
func rowsOf(m nodestatus.Maps) mapRows {
	rows := mapRows{}
	rows.addVPCs(m)
	rows.addNode(m)
	return rows
}

func (r mapRows) put(row any, key string, values ...any) {
	text, err := json.Marshal(row)
	if err != nil { // no value of these types fails
		text = []byte(err.Error())
	}
	r[fmt.Sprintf(key, values...)] = string(text)
}

// addVPCs adds the rows that belong to VPCs.
func (r mapRows) addVPCs(m nodestatus.Maps) {
	for _, i := range m.Interfaces {
		i.Addrs = sorted(i.Addrs)
		r.put(i, "interface %d", i.Ifindex)
	}
	for _, a := range m.Addresses {
		r.put(a, "address %s in VNI %d", a.IP, a.VNI)
	}
	for _, n := range m.Subnets {
		r.put(nil, "subnet %s in VNI %d", n.Prefix.Masked(), n.VNI)
	}
	for _, v := range m.VPCs {
		v.Prefixes = slices.Clone(v.Prefixes)
		for i, prefix := range v.Prefixes {
			v.Prefixes[i] = prefix.Masked()
		}
		slices.SortFunc(v.Prefixes, netip.Prefix.Compare)
		r.put(v, "VPC with VNI %d", v.VNI)
	}
	for _, p := range m.NodePorts {
		r.put(nil, "node port %d protocol %d in VNI %d, IPv4 %t", p.Port, p.Proto, p.VNI, p.Is4)
	}
	for _, service := range m.Services {
		// A copy that is not nil, so that none at all has one text.
		backends := append([]nodestatus.Backend{}, service.Backends...)
		slices.SortFunc(backends, func(a, b nodestatus.Backend) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		r.put([]any{backends, service.Affinity}, "service %s port %d protocol %d in VNI %d", service.VIP, service.Port, service.Proto, service.VNI)
	}
}

// addNode adds the rows of the node as a whole.
func (r mapRows) addNode(m nodestatus.Maps) {
	for _, ip := range m.Nodes {
		r.put(nil, "node %s", ip)
	}
	for _, ip := range m.Announced {
		r.put(nil, "announced address %s", ip)
	}
	for _, p := range m.Closed {
		r.put(p.Class, "closed prefix %s in VNI %d", p.Prefix.Masked(), p.VNI)
	}
	for _, n := range m.Namespaces {
		n.Memberships = slices.Clone(n.Memberships)
		for i := range n.Memberships {
			n.Memberships[i].Addrs = sorted(n.Memberships[i].Addrs)
		}
		r.put(n, "network namespace %d", n.Cookie)
	}
	for _, p := range m.Probes {
		r.put(p.Shadow, "probe target %s", p.IP)
	}
	for _, h := range m.Hooks {
		r.put(h.Shadow, "hook target %s", h.IP)
	}
}
