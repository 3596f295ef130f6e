// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// DomainClaim is the kind of the number that a network outside of every VPC has in the
// tables of nodes. Every node follows all of them: there is one per network.
var DomainClaim = descriptor.Define(&all, descriptor.Description[*v1alpha1.DomainClaim, multinet.DomainClaim]{
	Name: "DomainClaim", Object: &v1alpha1.DomainClaim{}, List: &v1alpha1.DomainClaimList{}, Convert: convertDomainClaim,
	Table:  descriptor.ByNumber("domain-", multinet.GetDomainClaim, multinet.PutDomainClaim, multinet.DeleteDomainClaim),
	OnNode: descriptor.Everything,
})

// convertDomainClaim converts a DomainClaim. It never fails.
func convertDomainClaim(in *v1alpha1.DomainClaim) (*multinet.DomainClaim, error) {
	return &multinet.DomainClaim{
		Meta:    values.Meta(in),
		Number:  uint32(in.Spec.Number),
		Network: values.NetworkRef(&in.Spec.Network),
	}, nil
}
