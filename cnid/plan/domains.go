// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/multinet"
	"github.com/alioth-net/alioth/store/services"
)

// domains are the networks outside of every VPC that pods here are attached to and in which
// there are Services. The interfaces have no part in the datapath, but the pods' sockets
// reach the Services.
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

// domainsHere finds them. Without an address of Alioth's an interface is no member: its
// packets to a backend would leave through another interface.
func domainsHere(tx store.ReadTx, in Input) domains {
	d := domains{numbers: map[string]uint32{}}
	for _, rec := range in.Records {
		if rec.InVPC() || rec.Phase != journal.PhaseDone || len(rec.Addrs) == 0 {
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

// networkOf returns the network outside of every VPC that a record leads to. Only the
// operator writes AttachmentClaims; the name in the record is for people.
func networkOf(tx store.ReadTx, node string, rec journal.Record) (network store.NetworkRef, ok bool) {
	for _, claim := range multinet.ClaimsNaming(tx, rec.Pod.UID) {
		if claim.Node == node && claim.Namespace == rec.Pod.Namespace && claim.Interface == rec.Attachment && !claim.Released {
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
	onRow(func(c *comparison, row *store.ScaledEndpoint) {
		c.stale.domains = c.stale.domains || store.IsNetworkDomain(row.VPC)
	}),
}}
