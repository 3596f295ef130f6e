// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// namespaces adds the network namespaces of the attachments here, whatever kind
// they are of, and the node's own.
func (b *nodeBuilder) namespaces() {
	b.part.Namespaces = nil
	found := map[uint64]*state.Namespace{}
	for _, rec := range b.live {
		cookie := rec.Device.NetnsCookie
		if cookie == 0 {
			continue
		}
		shared := b.vpcs[rec.VPC].here.opensAll
		n, known := found[cookie]
		if !known {
			n = &state.Namespace{Cookie: cookie, Shared: shared}
			found[cookie] = n
		}
		if len(n.Memberships) == state.MaxMemberships {
			continue // its packets are known by their interface all the same
		}
		n.Shared = n.Shared && shared
		n.Memberships = append(n.Memberships, membershipOf(rec))
	}
	for _, n := range found {
		b.part.Namespaces = append(b.part.Namespaces, *n)
	}
	b.nodeNamespace()
	slices.SortFunc(b.part.Namespaces, func(a, b state.Namespace) int { return cmp.Compare(a.Cookie, b.Cookie) })
}

func membershipOf(rec journal.Record) state.Membership {
	m := state.Membership{VNI: rec.VNI, Ifindex: rec.Device.HostIfindex}
	for _, prefix := range rec.Addrs {
		m.Addrs = append(m.Addrs, prefix.Addr())
	}
	return m
}

// nodeNamespace adds the node's own network namespace, with its interface in the
// default VPC, if it has that.
func (b *nodeBuilder) nodeNamespace() {
	home := b.vpcs[b.in.DefaultVPC]
	if b.in.NetnsCookie == 0 || home == nil || home.part == nil {
		return
	}
	for _, i := range home.part.Interfaces {
		if i.Node {
			b.part.Namespaces = append(b.part.Namespaces, state.Namespace{
				Cookie: b.in.NetnsCookie, Shared: true,
				Memberships: []state.Membership{{VNI: i.VNI, Addrs: i.Addrs, Ifindex: i.Ifindex}},
			})
		}
	}
}
