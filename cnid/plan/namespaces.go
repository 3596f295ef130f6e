// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
)

// namespaces adds the network namespaces of the attachments here, whatever kind
// they are of, and the node's own.
func (b *builder) namespaces() {
	found := map[uint64]*datapath.Namespace{}
	inOrder := slices.SortedFunc(slices.Values(b.live), func(a, b journal.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, rec := range inOrder {
		cookie := rec.Device.NetnsCookie
		if cookie == 0 {
			continue
		}
		shared := b.opensAll(b.vpcs[rec.VNI].row)
		n, known := found[cookie]
		if !known {
			n = &datapath.Namespace{Cookie: cookie, Shared: shared}
			found[cookie] = n
		}
		if len(n.Memberships) == datapath.MaxMemberships {
			continue // its packets are known by their interface all the same
		}
		n.Shared = n.Shared && shared
		n.Memberships = append(n.Memberships, membershipOf(rec))
	}
	for _, n := range found {
		b.want.Datapath.Namespaces = append(b.want.Datapath.Namespaces, *n)
	}
	b.nodeNamespace()
}

func membershipOf(rec journal.Record) datapath.Membership {
	m := datapath.Membership{VNI: rec.VNI, Ifindex: rec.Device.HostIfindex}
	for _, prefix := range rec.Addrs {
		m.Addrs = append(m.Addrs, prefix.Addr())
	}
	return m
}

// opensAll says that a pod of the VPC may send to the backends of every shared
// service by itself: they are in its VPC, or where its egress leads without any
// exception.
func (b *builder) opensAll(vpc *store.VPC) bool {
	return vpc.Name == b.in.DefaultVPC && vpc.EgressMasquerade && len(vpc.EgressAllow) == 0 && len(vpc.EgressDeny) == 0
}

// nodeNamespace adds the node's own network namespace, with its interface in the
// default VPC, if it has that.
func (b *builder) nodeNamespace() {
	if b.in.NetnsCookie == 0 {
		return
	}
	for _, i := range b.want.Datapath.Interfaces {
		if i.Node {
			b.want.Datapath.Namespaces = append(b.want.Datapath.Namespaces, datapath.Namespace{
				Cookie: b.in.NetnsCookie, Shared: true,
				Memberships: []datapath.Membership{{VNI: i.VNI, Addrs: i.Addrs, Ifindex: i.Ifindex}},
			})
		}
	}
}
