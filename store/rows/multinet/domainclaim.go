// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"iter"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// DomainClaim is the row of a DomainClaim object: a network outside of every VPC has a
// number in the tables of the nodes. Key: Number.
type DomainClaim struct {
	store.Meta
	Number uint32
	// Network holds the number, with its UID.
	Network store.NetworkRef
}

var domainClaims = memory.Define(memory.Table[DomainClaim]{
	Name: "domainclaim",
	Key:  func(c *DomainClaim) []byte { return memory.NumberKey(c.Number) },
	Meta: func(c *DomainClaim) *store.Meta { return &c.Meta },
	Indexes: map[string]func(*DomainClaim) []byte{
		byNetwork: func(c *DomainClaim) []byte { return memory.TextKey(c.Network.UID) },
	},
})

// GetDomainClaim returns the claim of a number, or nil.
func GetDomainClaim(tx store.ReadTx, number uint32) *DomainClaim {
	return domainClaims.Get(tx, memory.NumberKey(number))
}

// DomainClaims yields all claims, the lowest number first.
func DomainClaims(tx store.ReadTx) iter.Seq[*DomainClaim] { return domainClaims.All(tx) }

// DomainClaimsByNetwork returns the claims of the network of that UID, the lowest number
// first.
func DomainClaimsByNetwork(tx store.ReadTx, uid string) []*DomainClaim {
	return domainClaims.List(tx, byNetwork, memory.TextKey(uid))
}

// NumberOf returns the number of the network of that UID, 0 without a number. Two operators may
// have claimed several numbers at once: it returns the lowest.
func NumberOf(tx store.ReadTx, uid string) uint32 {
	for row := range domainClaims.Seq(tx, byNetwork, memory.TextKey(uid)) {
		return row.Number
	}
	return 0
}

// PutDomainClaim inserts or replaces a claim.
func PutDomainClaim(tx store.Tx, row *DomainClaim) error {
	_, err := domainClaims.Put(tx, row)
	return err
}

// DeleteDomainClaim removes a claim if it has that UID, and reports whether it did.
func DeleteDomainClaim(tx store.Tx, number uint32, uid string) bool {
	return domainClaims.Remove(tx, memory.NumberKey(number), uid) != nil
}
