// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"slices"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// AttachmentClaim is the kind of a permission to attach a pod to a network outside of every VPC.
// A node follows the claims of its own pods.
var AttachmentClaim = descriptor.Define(&all, descriptor.Description[*v1alpha1.AttachmentClaim, multinet.Claim]{
	Name: "AttachmentClaim", Object: &v1alpha1.AttachmentClaim{}, List: &v1alpha1.AttachmentClaimList{}, Convert: convertAttachmentClaim,
	Table:  descriptor.InNamespace(multinet.GetClaim, multinet.PutClaim, multinet.DeleteClaim),
	OnNode: descriptor.WithField("spec.node"),
})

func convertAttachmentClaim(in *v1alpha1.AttachmentClaim) (*multinet.Claim, error) {
	return &multinet.Claim{
		Meta: values.Meta(in), Namespace: in.Namespace, Name: in.Name,
		PodName: in.Spec.Pod.Name, PodUID: in.Spec.Pod.UID, Node: in.Spec.Node,
		Interface: in.Spec.Interface, Driver: in.Spec.Driver, Network: values.NetworkRef(&in.Spec.Network),
		Config: interfaceOf(in), Interfaces: slices.Clone(in.Spec.Interfaces), ConfigHash: in.Spec.ConfigHash,
		Addresses: slices.Clone(in.Spec.Addresses), Released: in.Status.Released,
	}, nil
}

// interfaceOf returns the configuration of a claim, nil for a claim without one. A configuration that
// can't be read fits no claim (multinet.Claim.Fits).
func interfaceOf(in *v1alpha1.AttachmentClaim) *netif.Interface {
	config, err := netif.Decode(in.Spec.Config)
	if err != nil {
		return &netif.Interface{}
	}
	return config
}
