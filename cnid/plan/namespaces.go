// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// namespaces adds the network namespaces of the attachments here, whatever kind they are
// of, and the node's own.
//
// Networks outside of every VPC precede VPCs. A Service has an address in its VPC whatever
// its endpoints are, and outside only if it has endpoints there, so in the order of the
// interfaces its VPC would hide these. No other Service has the same ClusterIP.
func (b *nodeBuilder) namespaces() {
	b.part.Namespaces = nil
	found := namespacesByCookie{}
	for _, m := range b.domains.members {
		found.add(m.rec, m.number, false)
	}
	for _, rec := range b.live {
		found.add(rec, rec.VNI, b.vpcs[rec.VPC].here.opensAll)
	}
	for _, n := range found {
		b.part.Namespaces = append(b.part.Namespaces, *n)
	}
	b.nodeNamespace()
	slices.SortFunc(b.part.Namespaces, func(a, b state.Namespace) int { return cmp.Compare(a.Cookie, b.Cookie) })
}

// namespacesByCookie are those that are being put together.
type namespacesByCookie map[uint64]*state.Namespace

// add adds the interface of a record, in a VPC or network of that number. shared is
// state.Namespace.Shared as far as this interface decides it.
func (found namespacesByCookie) add(rec journal.Record, number uint32, shared bool) {
	cookie := rec.Device.NetnsCookie
	if cookie == 0 {
		return
	}
	n, known := found[cookie]
	if !known {
		n = &state.Namespace{Cookie: cookie, Shared: shared}
		found[cookie] = n
	}
	if len(n.Memberships) == state.MaxMemberships {
		return // in a VPC its packets are known by their interface all the same
	}
	n.Shared = n.Shared && shared
	n.Memberships = append(n.Memberships, membershipOf(rec, number))
}

func membershipOf(rec journal.Record, number uint32) state.Membership {
	m := state.Membership{VNI: number, Ifindex: rec.Device.HostIfindex}
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
