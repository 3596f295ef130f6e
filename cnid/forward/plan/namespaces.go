// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
	"github.com/alioth-net/alioth/store/sound"
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

// domains has the networks outside of every VPC that have Services and attached pods on this
// node. The interfaces have no part in the datapath, but the pods' sockets reach the Services.
type domains struct {
	// members are the attachments, the oldest first.
	members []domainMember
	// numbers stand for the networks in the tables, by domain (store.NetworkRef.Domain).
	numbers map[string]uint32
}

// domainMember is an attachment to a network that has a number.
type domainMember struct {
	rec    journal.Record
	number uint32
}

// domainsHere finds these networks. An interface without an address of Alioth's does not count:
// its packets to a backend would leave through another interface.
func domainsHere(tx store.ReadTx, in Input) domains {
	d := domains{numbers: map[string]uint32{}}
	for _, rec := range in.Records {
		if rec.InVPC() || rec.Phase != journal.PhaseDone || len(rec.Addrs) == 0 || !identify(rec.Addrs) {
			continue
		}
		network, ok := networkOf(tx, in.Node, rec)
		if number := multinet.NumberOf(tx, network.UID); ok && number != 0 && services.InNetwork(tx, network) {
			d.members = append(d.members, domainMember{rec, number})
			d.numbers[network.Domain()] = number
		}
	}
	slices.SortFunc(d.members, func(a, b domainMember) int { return cmp.Compare(a.rec.Seq, b.rec.Seq) })
	return d
}

// identify reports whether the addresses of an interface identify a client of Services: each
// belongs to one host, and each family has one at most.
func identify(addrs []netip.Prefix) bool {
	var have [2]bool
	for _, prefix := range addrs {
		family := ipfamily.Of(prefix.Addr()).Index()
		if have[family] || !sound.IsHost(prefix.Addr()) {
			return false
		}
		have[family] = true
	}
	return true
}

// networkOf returns the network outside of every VPC that a record leads to. Only the
// operator writes AttachmentClaims; the name in the record is for people.
func networkOf(tx store.ReadTx, node string, rec journal.Record) (network store.NetworkRef, ok bool) {
	for _, claim := range multinet.ClaimsNaming(tx, rec.Pod.UID) {
		if claim.Node == node && claim.Namespace == rec.Pod.Namespace && claim.Interface == rec.Attachment &&
			!claim.Released {
			return claim.Network, true
		}
	}
	return store.NetworkRef{}, false
}

// IsServed reports whether there are Services in the network outside of every VPC that a
// record leads to, so that the tables need the record.
func IsServed(tx store.ReadTx, node string, rec journal.Record) bool {
	network, ok := networkOf(tx, node, rec)
	return ok && services.InNetwork(tx, network)
}

// domainsPart declares the rows that the networks outside of every VPC depend on.
var domainsPart = part{"domains", []dependency{
	onRow(func(c *comparison, _ *multinet.Claim) { c.stale.domains = true }),
	onRow(func(c *comparison, _ *multinet.DomainClaim) { c.stale.domains = true }),
	onRow(func(c *comparison, row *store.EndpointSlice) {
		c.stale.domains = c.stale.domains || store.IsNetworkDomain(row.Domain)
	}),
	onRow(func(c *comparison, row *scaled.Endpoint) {
		c.stale.domains = c.stale.domains || store.IsNetworkDomain(row.VPC)
	}),
}}
