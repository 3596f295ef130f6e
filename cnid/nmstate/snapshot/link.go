// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/snapshot/object"
)

func linksOf(i *Image) (list []object.Link, byIndex map[uint32]object.Link) {
	byIndex = make(map[uint32]object.Link, len(i.Links))
	for _, m := range i.Links {
		l := object.LinkOf(m)
		list = append(list, l)
		byIndex[l.Index] = l
	}
	return list, byIndex
}

// names gives a device its missing alternative names back, and removes the names that the change
// added. Another device may still have a name: a later comparison finds it free.
func (p *planner) names(was, is object.Link) {
	had, has := was.Alternatives(), is.Alternatives()
	lost := slices.DeleteFunc(slices.Clone(had), func(name string) bool { return slices.Contains(has, name) })
	added := slices.DeleteFunc(slices.Clone(has), func(name string) bool {
		return slices.Contains(had, name) || !slices.Contains(p.area.AltNames[was.Name], name)
	})
	change := func(list []string, kind, flags int) {
		if len(list) > 0 {
			p.request(
				Request{
					What:  "alternative names of " + was.Name,
					Kind:  kind,
					Flags: flags,
					Body:  object.About(is.Index).Add(unix.IFLA_PROP_LIST|unix.NLA_F_NESTED, object.AltNames(list)).Body,
				},
			)
		}
	}
	change(added, unix.RTM_DELLINKPROP, 0)
	change(lost, unix.RTM_NEWLINKPROP, object.Exclusive|unix.NLM_F_APPEND)
}

// token restores the part of addresses that an administrator chose for the router's prefixes.
func (p *planner) token(was, is object.Link) {
	want := object.TokenOf(was)
	if want == nil || bytes.Equal(want, object.TokenOf(is)) {
		return
	}
	settings := object.AppendAttribute(
		nil,
		unix.AF_INET6|unix.NLA_F_NESTED,
		object.AppendAttribute(nil, object.AttrToken, want),
	)
	p.link(is, "token of "+was.Name, func(b *object.Builder) { b.Add(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, settings) })
}
