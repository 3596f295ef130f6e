// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netservice

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// Rules are the settings that do not change while an operator runs.
type Rules struct {
	// DefaultVPC is the name of the default VPC.
	DefaultVPC string
	// VPCTypes are types of networks, in lower case, that stand for the pod's VPC.
	VPCTypes []string
	// Services is how many Services of a tenant may select endpoints; 0 for no limit.
	Services int
	// Sharing is whose definitions Services of other namespaces may name.
	Sharing multinet.Sharing
}

// place is the place that the interfaces of a network lead to. Exactly one of outside, vpc and
// ofPod is set.
type place struct {
	name store.NetworkName
	// outside is the UID of a network outside of every VPC.
	outside string
	// vpc is the name of a VPC, and subnet the name of a Subnet in it, "" for all.
	vpc, subnet string
	// ofPod: the VPC that each pod's own Network leads to.
	ofPod bool
}

// seeker finds networks for one Service.
type seeker struct {
	tx                store.ReadTx
	rules             Rules
	namespace, tenant string
}

// find returns the place of a network that pods of the Service's namespace may use, or the
// refusal of the name. The network need not be Ready for new pods: running pods keep
// their interfaces.
func (s seeker) find(name store.NetworkName) (place, *tenancy.Refusal) {
	switch name.Kind {
	case annotations.TargetNetwork:
		return s.network(name)
	case annotations.TargetVPC:
		return s.vpc(place{name: name, vpc: name.Name})
	case annotations.TargetDefinition:
		return s.definition(name)
	}
	return s.outside(name)
}

// network finds a Network, as pods of the namespace do by its label.
func (s seeker) network(name store.NetworkName) (place, *tenancy.Refusal) {
	net := tenancy.Find(s.tx, s.tenant, s.namespace, name.Name)
	switch {
	case net == nil:
		return place{}, missing(
			fmt.Sprintf("no Network %q in namespace %q or another namespace of tenant %q", name.Name, s.namespace, s.tenant),
		)
	case !tenancy.Served(net.Type):
		return place{}, &tenancy.Refusal{Reason: v1alpha1.NetworkTypeReason, Message: fmt.Sprintf(
			"Network %s/%s is of type %q: Alioth serves the types %s and %s",
			net.Namespace,
			net.Name,
			net.Type,
			arktosv1.TypeMizar,
			arktosv1.TypeVPC,
		)}
	}
	return s.vpc(place{name: name, vpc: net.VPC})
}

// vpc checks that the tenant may use the VPC of a place.
func (s seeker) vpc(at place) (place, *tenancy.Refusal) {
	row := store.GetVPC(s.tx, at.vpc)
	switch {
	case row == nil:
		return place{}, missing(fmt.Sprintf("%s leads to VPC %q, which does not exist", at.name, at.vpc))
	case !tenancy.Allows(row, s.tenant):
		return place{}, &tenancy.Refusal{Reason: v1alpha1.TenantNotAllowedReason, Message: fmt.Sprintf(
			"VPC %q does not allow tenant %q: its owner can add the tenant to spec.allowedTenants", row.Name, s.tenant)}
	}
	return at, nil
}

// outside finds a network of DANM.
func (s seeker) outside(name store.NetworkName) (place, *tenancy.Refusal) {
	namespace := s.namespace
	if name.Kind == multinet.KindClusterNetwork {
		namespace = ""
	}
	net := multinet.Find(s.tx, name.Kind, namespace, name.Name)
	switch {
	case net == nil:
		return place{}, missing(
			fmt.Sprintf("%s does not exist", multinet.Ref{Kind: name.Kind, Namespace: namespace, Name: name.Name}),
		)
	case !net.Admits(s.namespace):
		return place{}, &tenancy.Refusal{Reason: v1alpha1.TenantNotAllowedReason, Message: fmt.Sprintf(
			"%s does not allow namespace %q: the cluster's operator can add it to spec.AllowedTenants", net.Ref, s.namespace)}
	case slices.Contains(s.rules.VPCTypes, net.Type):
		return place{name: name, ofPod: true}, nil
	}
	return place{name: name, outside: net.UID}, nil
}

// definition finds the network of a NetworkAttachmentDefinition: the network that it names, or a
// network of its own if CNI plugins make the interfaces.
func (s seeker) definition(name store.NetworkName) (place, *tenancy.Refusal) {
	namespace := s.namespace
	if name.Namespace != "" {
		namespace = name.Namespace
	}
	if !s.rules.Sharing.Shares(s.tx, s.namespace, s.tenant, namespace) {
		return place{}, &tenancy.Refusal{Reason: v1alpha1.TenantNotAllowedReason, Message: fmt.Sprintf(
			"namespace %q is not of the Service's tenant, and its definitions are not shared with namespace %q: name a %s in a namespace of the tenant",
			namespace,
			s.namespace,
			multinet.KindDefinition,
		)}
	}
	def := multinet.GetDefinition(s.tx, namespace, name.Name)
	switch {
	case def == nil:
		return place{}, missing(fmt.Sprintf("%s %s/%s does not exist", multinet.KindDefinition, namespace, name.Name))
	case def.Problem != "":
		return place{}, &tenancy.Refusal{
			Reason:  v1alpha1.EndpointsInvalidReason,
			Message: fmt.Sprintf("%s can't be used: %s", def, def.Problem),
		}
	case def.Target.Kind == "":
		return place{name: name, outside: def.UID}, nil
	case def.Target.Kind == annotations.TargetVPC:
		return s.standsForVPC(name, def)
	case def.Target.Kind != multinet.KindClusterNetwork && namespace != s.namespace:
		return place{}, &tenancy.Refusal{Reason: v1alpha1.TenantNotAllowedReason, Message: fmt.Sprintf(
			"%s stands for a %s of its namespace, which pods of other namespaces can't use", def, def.Target.Kind)}
	}
	return s.outside(store.NetworkName{Kind: def.Target.Kind, Name: def.Target.Name})
}

// standsForVPC returns the place of a definition that names a VPC or a Subnet.
func (s seeker) standsForVPC(name store.NetworkName, def *multinet.Definition) (place, *tenancy.Refusal) {
	at := place{name: name, vpc: def.Target.Name}
	if def.Target.Subnet == "" {
		return s.vpc(at)
	}
	for _, subnet := range s.subnets(def.Target) {
		at.vpc, at.subnet = subnet.VPC, subnet.Name
		return s.vpc(at)
	}
	return place{}, missing(fmt.Sprintf("%s names the Subnet %q, which does not exist", def, def.Target.Subnet))
}

// subnets returns the subnets that a target can mean: by object name, or in a VPC by
// spec.name.
func (s seeker) subnets(target multinet.Target) []*store.Subnet {
	if target.Name == "" {
		if subnet := store.GetSubnet(s.tx, target.Subnet); subnet != nil {
			return []*store.Subnet{subnet}
		}
		return nil
	}
	return slices.DeleteFunc(store.SubnetsByVPC(s.tx, target.Name), func(subnet *store.Subnet) bool {
		return subnet.Name != target.Subnet && subnet.ShortName != target.Subnet
	})
}

func missing(what string) *tenancy.Refusal {
	return &tenancy.Refusal{
		Reason:  v1alpha1.NetworkNotFoundReason,
		Message: what + ": create it, or correct the annotation of the Service",
	}
}
