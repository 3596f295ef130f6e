// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"fmt"
	"slices"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	pods "github.com/alioth-net/alioth/operator/nodeipam"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

// decision is the status of one PodNetwork.
type decision struct {
	state    multitenancyv1alpha1.PodNetworkState
	prefixes []string
	verdict.Verdict
}

// decide plans for one PodNetwork.
func decide(tx store.CentralTx, row *nodeipam.PodNetwork) decision {
	for _, check := range []func(store.CentralTx, *nodeipam.PodNetwork) verdict.Verdict{serves, canBeServed, hasVPC} {
		if v := check(tx, row); !v.IsReady() {
			return decision{state: multitenancyv1alpha1.PodNetworkNotDelegated, Verdict: v}
		}
	}
	return ofSubnet(tx, row)
}

// serves finds the older PodNetwork of the same name in the other group.
func serves(tx store.CentralTx, row *nodeipam.PodNetwork) verdict.Verdict {
	serving := nodeipam.ServingPodNetwork(tx, row.Name)
	if serving == nil || serving.Ref == row.Ref {
		return verdict.Passed
	}
	return verdict.Refuse(v1alpha1.OlderServesReason, fmt.Sprintf(
		"the PodNetwork of this name in group %s, which is older, serves: delete one of the two, or give this one another name",
		serving.Group,
	))
}

func canBeServed(_ store.CentralTx, row *nodeipam.PodNetwork) verdict.Verdict {
	switch {
	case row.Deleting:
		return verdict.Deleting("it is being deleted")
	case row.Invalid != "":
		return verdict.Refuse(v1alpha1.InvalidReason, row.Invalid)
	case row.VPC == "":
		return verdict.Refuse(v1alpha1.InvalidReason, "spec.networkID is empty: set it to the name of a VPC")
	case row.Subnet == "":
		return verdict.Refuse(
			v1alpha1.InvalidReason,
			"spec.subnetResourceID is empty: set it to the name of a subnet of the VPC",
		)
	}
	return verdict.Passed
}

func hasVPC(tx store.CentralTx, row *nodeipam.PodNetwork) verdict.Verdict {
	vpc := store.GetVPC(tx, row.VPC)
	switch {
	case vpc == nil:
		return verdict.Refuse(
			v1alpha1.VPCNotFoundReason,
			fmt.Sprintf("VPC %q does not exist: create it, or make a PodNetwork with another spec.networkID", row.VPC),
		)
	case !vpc.Ready || vpc.Deleting:
		return verdict.Refuse(
			v1alpha1.VPCNotReadyReason,
			fmt.Sprintf("VPC %q is not Ready: see its Ready condition", row.VPC),
		)
	}
	return verdict.Passed
}

// ofSubnet decides by the subnet.
func ofSubnet(tx store.CentralTx, row *nodeipam.PodNetwork) decision {
	d := decision{state: multitenancyv1alpha1.PodNetworkNotDelegated}
	subnet := ipam.SubnetNamed(tx, row.VPC, row.Subnet)
	if subnet == nil {
		d.Verdict = verdict.Refuse(
			v1alpha1.SubnetNotFoundReason,
			fmt.Sprintf("VPC %q has no subnet %q: create it, or correct spec.subnetResourceID", row.VPC, row.Subnet),
		)
		return d
	}
	for _, prefix := range subnet.Prefixes {
		d.prefixes = append(d.prefixes, prefix.String())
	}
	switch {
	case subnet.ForServices:
		d.state = multitenancyv1alpha1.PodNetworkOfOthers
		d.Verdict = verdict.Refuse(
			v1alpha1.SubnetUseReason,
			fmt.Sprintf("subnet %q is for load balancers (spec.use Services): use another subnet", subnet.Name),
		)
	case !subnet.Ready || subnet.Deleting:
		d.Verdict = verdict.Refuse(
			v1alpha1.SubnetNotReadyReason,
			fmt.Sprintf("subnet %q is not Ready: see its Ready condition", subnet.Name),
		)
	case inUse(tx, row, subnet):
		d.state, d.Verdict = multitenancyv1alpha1.PodNetworkInUse, verdict.Use("pods can use it")
	default:
		d.state, d.Verdict = multitenancyv1alpha1.PodNetworkReady, verdict.Use("pods can use it")
	}
	return d
}

// inUse reports whether an instance has reserved addresses in a PodNetwork, or a pod has an
// interface in it. Several PodNetworks may share one subnet. Of a pod that is gone only the subnet
// is known.
func inUse(tx store.CentralTx, row *nodeipam.PodNetwork, subnet *store.Subnet) bool {
	if nodeipam.CountReserved(tx, row.Name) > 0 {
		return true
	}
	return slices.ContainsFunc(store.AddressesBySubnet(tx, subnet.Name), func(address *store.Address) bool {
		if !address.External || address.Attachment == v1alpha1.PodAttachment {
			return false
		}
		pod := store.GetPod(tx, address.Holder.UID)
		return pod == nil || slices.Contains(pods.PodNetworks(tx, pod), row.Name)
	})
}
