// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/attribute"
)

// Numbers of include/uapi/linux/rtnetlink.h and if_link.h.
const (
	newNames  = 108 // RTM_NEWLINKPROP
	names     = 52  // IFLA_PROP_LIST
	otherName = 53  // IFLA_ALT_IFNAME
	token     = 7   // IFLA_INET6_TOKEN
)

// names gives a device the alternative names back that it lacks.
func (p *planner) names(was, is link) {
	has := map[string]bool{}
	for _, name := range is.Get(names).All() {
		has[string(name)] = true
	}
	var lost []byte
	for kind, name := range was.Get(names).All() {
		if kind == otherName && !has[string(name)] {
			lost = appendAttribute(lost, kind, name)
		}
	}
	if len(lost) > 0 {
		b := about(is.index).add(names|unix.NLA_F_NESTED, lost)
		p.request(Request{What: "alternative names of " + was.name, Kind: newNames, Flags: exclusive | unix.NLM_F_APPEND, Body: b.body})
	}
}

// token restores the part of addresses that an administrator chose for the router's prefixes.
func (p *planner) token(was, is link) {
	want := tokenOf(was)
	if want == nil || bytes.Equal(want, tokenOf(is)) {
		return
	}
	settings := appendAttribute(nil, unix.AF_INET6|unix.NLA_F_NESTED, appendAttribute(nil, token, want))
	p.link(is, "token of "+was.name, func(b *builder) { b.add(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, settings) })
}

func tokenOf(l link) attribute.List { return l.Get(unix.IFLA_AF_SPEC).Get(unix.AF_INET6).Get(token) }
