// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/cniconf"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Definition is the kind of a network that pods select by the annotation
// k8s.v1.cni.cncf.io/networks. Nodes do not watch it: the configuration is in the pod's
// annotation alioth.dev/attachments, and the AttachmentClaim has its hash.
var Definition = descriptor.Define(
	&all,
	descriptor.Description[*nadv1.NetworkAttachmentDefinition, multinet.Definition]{
		Name: multinet.KindDefinition, Object: &nadv1.NetworkAttachmentDefinition{},
		List:     &nadv1.NetworkAttachmentDefinitionList{},
		Optional: true,
		Convert:  convertDefinition,
		Table:    descriptor.InNamespace(multinet.GetDefinition, multinet.PutDefinition, multinet.DeleteDefinition),
	},
)

// convertDefinition converts a NetworkAttachmentDefinition. It never fails: Problem describes
// unusable parts.
func convertDefinition(in *nadv1.NetworkAttachmentDefinition) (*multinet.Definition, error) {
	row := &multinet.Definition{Meta: values.Meta(in), Namespace: in.Namespace, Name: in.Name}
	read, err := annotations.DefinitionOf(in.Annotations)
	if err != nil {
		row.Problem = err.Error()
		return row, nil //nolint:nilerr // Problem has it
	}
	row.Target, row.ResourceName, row.VF = multinet.Target(read.Target), read.ResourceName, read.VF
	config := strings.TrimSpace(in.Spec.Config)
	switch {
	case row.Target.Kind != "":
		// The specification lets such a definition have a configuration for other
		// implementations (NPWG 1.3, section 3.2).
	case len(config) > cniconf.MaxText:
		row.Problem = fmt.Sprintf("spec.config has %d bytes, and at most %d are accepted", len(config), cniconf.MaxText)
	default:
		row.Config = config
		if link := cniconf.LinkOf([]byte(config)); link != nil {
			row.Link = linkID(link)
		}
	}
	return row, nil
}

// linkID identifies the link that a configuration asks for.
func linkID(link *cniconf.Link) multinet.LinkID {
	if link.VLAN != 0 {
		return multinet.LinkID{Device: link.Master, Type: multinet.VLAN, VNI: link.VLAN}
	}
	return multinet.LinkID{Device: link.Master, Type: multinet.VXLAN, VNI: link.VXLAN}
}

// DelegationGrant is the kind of a permission to run other CNI plugins. Nodes follow it,
// because the AttachmentClaim of such an interface is in the namespace of the pod.
var DelegationGrant = descriptor.Define(&all, descriptor.Description[*v1alpha1.DelegationGrant, multinet.Grant]{
	Name: "DelegationGrant", Object: &v1alpha1.DelegationGrant{}, List: &v1alpha1.DelegationGrantList{},
	Convert: convertDelegationGrant,
	Table:   descriptor.ByName(multinet.GetGrant, multinet.PutGrant, multinet.DeleteGrant),
	OnNode:  descriptor.Everything,
})

// convertDelegationGrant converts a DelegationGrant. It returns an error for a request or
// setting that this version does not know: whoever wrote it counts on it.
func convertDelegationGrant(in *v1alpha1.DelegationGrant) (*multinet.Grant, error) {
	err := cmp.Or(
		values.EachKnown(
			"spec.requests",
			in.Spec.Requests,
			v1alpha1.DelegationRequestArgs,
			v1alpha1.DelegationRequestMAC,
			v1alpha1.DelegationRequestGUID,
		),
		values.EachKnown(
			"spec.settings",
			in.Spec.Settings,
			netif.VFSpoofCheck,
			netif.VFTrust,
			netif.VFMinTxRate,
			netif.VFQoS,
			netif.VFProto,
		),
	)
	if err != nil {
		return nil, fmt.Errorf("convert DelegationGrant %s: %w", in.Name, err)
	}
	return &multinet.Grant{
		Meta: values.Meta(
			in,
		), Name: in.Name, Namespaces: slices.Clone(in.Spec.Namespaces), Networks: slices.Clone(in.Spec.Networks),
		Plugins: slices.Clone(in.Spec.Plugins), IPAM: slices.Clone(in.Spec.IPAM), Requests: slices.Clone(in.Spec.Requests),
		Settings: slices.Clone(in.Spec.Settings), FromNamespaces: slices.Clone(in.Spec.FromNamespaces),
	}, nil
}
