// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"errors"

	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// errExhausted reports that all numbers are claimed.
var errExhausted = errors.New("no number for a network outside of VPCs is free: delete networks that are not needed")

// decision is the next step for one network.
type decision struct {
	// claim is the number to claim now, for network; 0 for none.
	claim   uint32
	network store.NetworkRef
	// release lists claims that the network must not keep.
	release []*multinet.DomainClaim
}

// decide plans for the network of that UID. taken are numbers that are claimed although
// the store does not have the claim yet.
//
// A network gets a number with its first attachment. It keeps the number while it exists or has
// attachments: a network without pods for a moment has the same number again. Two operators at once
// may have claimed two numbers. The lowest stays, and nodes use it too.
func decide(tx store.ReadTx, uid string, taken []uint32) (decision, error) {
	own := multinet.DomainClaimsByNetwork(tx, uid)
	attached := attachmentTo(tx, uid)
	switch {
	case len(own) == 0 && attached == nil:
		return decision{}, nil
	case len(own) == 0:
		number, ok := ipam.ChooseDomainNumber(tx, taken)
		if !ok {
			return decision{}, errExhausted
		}
		return decision{claim: number, network: attached.Network}, nil
	case attached != nil || exists(tx, own[0].Network):
		return decision{release: own[1:]}, nil
	}
	return decision{release: own}, nil
}

// attachmentTo returns a claim of an attachment to the network of that UID, or nil.
func attachmentTo(tx store.ReadTx, uid string) *multinet.Claim {
	for _, claim := range multinet.ClaimsByNetwork(tx, uid) {
		return claim
	}
	return nil
}

// exists reports whether the network of that UID exists.
func exists(tx store.ReadTx, network store.NetworkRef) bool {
	if network.Kind == multinet.KindDefinition {
		def := multinet.GetDefinition(tx, network.Namespace, network.Name)
		return def != nil && def.UID == network.UID
	}
	return multinet.ByDomain(tx, network.Domain()) != nil
}
