// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Rows returns every row of a State as text: the content by the key. A key names the
// VNI of a row that belongs to a VPC. Rows of equal States are equal: the text does not
// depend on the order of lists. `aliothctl verify` compares nodes by it.
func (s State) Rows() map[string]string {
	rows := map[string]string{}
	for _, list := range []map[string]string{
		textOf(s.Interfaces), textOf(s.Addresses), textOf(s.Subnets), textOf(s.VPCs), textOf(s.Roles), textOf(s.NodePorts),
		textOf(s.Closed),
		textOf(s.Services), textOf(s.Probes), textOf(s.Hooks), textOf(s.Namespaces),
	} {
		maps.Copy(rows, list)
	}
	for _, ip := range s.Nodes {
		rows[fmt.Sprintf("node %s", ip)] = present
	}
	for _, ip := range s.Own {
		rows[fmt.Sprintf("own address %s", ip)] = present
	}
	for _, ip := range s.Announced {
		rows[fmt.Sprintf("announced address %s", ip)] = present
	}
	return rows
}

// present is the content of rows that have nothing but their key.
const present = "present"

// textOf returns rows as text.
func textOf[R interface{ text() (key, content string) }](list []R) map[string]string {
	rows := make(map[string]string, len(list))
	for _, row := range list {
		key, content := row.text()
		rows[key] = content
	}
	return rows
}

func (i Interface) text() (key, content string) {
	i.Addrs = slices.SortedFunc(slices.Values(i.Addrs), netip.Addr.Compare)
	return fmt.Sprintf("interface %d", i.Ifindex), fmt.Sprintf("%+v", i)
}

func (a Address) text() (key, content string) {
	return fmt.Sprintf(
			"address %s in VNI %d",
			a.IP,
			a.VNI,
		), fmt.Sprintf(
			"kind %d on device %d, node %s, MAC %s",
			a.Kind,
			a.Ifindex,
			a.Node,
			a.MAC,
		)
}

func (n Subnet) text() (key, content string) {
	key = fmt.Sprintf("subnet %s in VNI %d", n.Prefix.Masked(), n.VNI)
	if n.Role != 0 {
		return key, fmt.Sprintf("role %d", n.Role)
	}
	return key, present
}

func (r Role) text() (key, content string) {
	members := slices.SortedFunc(slices.Values(r.Members), netip.Addr.Compare)
	return fmt.Sprintf(
			"role %d in VNI %d",
			r.Key.ID,
			r.Key.VNI,
		), fmt.Sprintf(
			"members %s, here %t, complete %t",
			members,
			r.Here,
			r.Complete,
		)
}

func (v VPC) text() (key, content string) {
	ranges := make([]netip.Prefix, 0, len(v.Prefixes))
	for _, prefix := range v.Prefixes {
		ranges = append(ranges, prefix.Masked())
	}
	v.Prefixes = slices.SortedFunc(slices.Values(ranges), netip.Prefix.Compare)
	return fmt.Sprintf("VPC with VNI %d", v.VNI), fmt.Sprintf("%+v", v)
}

func (p ClosedPrefix) text() (key, content string) {
	return fmt.Sprintf("closed prefix %s in VNI %d", p.Prefix.Masked(), p.VNI), p.Class.String()
}

func (p ProbeTarget) text() (key, content string) {
	return fmt.Sprintf("probe target %s", p.IP), p.Shadow.String()
}

func (h HookTarget) text() (key, content string) {
	return fmt.Sprintf("hook target %s", h.IP), h.Shadow.String()
}
