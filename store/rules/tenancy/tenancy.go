// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tenancy decides which Network, and so which VPC, a pod or Service of
// a tenant belongs to, and whether the tenant may use it. It is pure: it reads
// a snapshot of the store and nothing else.
package tenancy

import (
	"fmt"
	"slices"
	"strings"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// Refusal has the cause of a refusal: a reason of package v1alpha1 and a message for
// users. Both depend on the cause alone, so that an unchanged cause gives an
// unchanged text.
type Refusal struct{ Reason, Message string }

// Member is a pod or a Service, which belongs to a Network.
type Member struct {
	Tenant, Namespace string
	// Label is the value of the network label; "" asks for the default.
	Label string
}

// Target is the Network and VPC of a Member.
type Target struct {
	// Network is nil where the default VPC is used without a Network.
	Network *store.Network
	VPC     *store.VPC
}

// NetworkKey returns namespace/name of the target's Network, or "".
func (t Target) NetworkKey() string {
	if t.Network == nil {
		return ""
	}
	return t.Network.Namespace + "/" + t.Network.Name
}

// Served reports whether Alioth serves Networks of a type.
func Served(networkType string) bool {
	return networkType == arktosv1.TypeMizar || networkType == arktosv1.TypeVPC
}

// Resolve finds the Network and VPC of a member. With a refusal, the Target has the
// parts that were found before.
func Resolve(tx store.ReadTx, m Member, defaultVPC string) (Target, *Refusal) {
	name := m.Label
	if name == "" {
		name = arktosv1.DefaultNetwork
	}
	net := Find(tx, m.Tenant, m.Namespace, name)
	switch {
	case net == nil && m.Label == "":
		return resolveDefaultVPC(tx, m.Tenant, defaultVPC)
	case net == nil:
		return Target{}, &Refusal{v1alpha1.NetworkNotFoundReason, fmt.Sprintf(
			"no Network %q in namespace %q or another namespace of tenant %q: create it, or correct the label %s",
			name, m.Namespace, m.Tenant, arktosv1.NetworkLabel)}
	case !Served(net.Type):
		return Target{Network: net}, &Refusal{v1alpha1.NetworkTypeReason, fmt.Sprintf(
			"Network %s/%s is of type %q: Alioth serves the types %s and %s",
			net.Namespace, net.Name, net.Type, arktosv1.TypeMizar, arktosv1.TypeVPC)}
	}
	target := Target{Network: net, VPC: store.GetVPC(tx, net.VPC)}
	if cause := CheckNetwork(tx, net); cause != nil {
		return target, &Refusal{v1alpha1.NetworkNotReadyReason, fmt.Sprintf(
			"Network %s/%s is not ready: %s", net.Namespace, net.Name, cause.Message)}
	}
	return target, nil
}

func resolveDefaultVPC(tx store.ReadTx, tenant, name string) (Target, *Refusal) {
	vpc := store.GetVPC(tx, name)
	if vpc == nil || !Allows(vpc, tenant) {
		return Target{}, &Refusal{v1alpha1.NoDefaultNetworkReason, fmt.Sprintf(
			"tenant %q has no Network named %q and may not use the default VPC: name a Network of the tenant's in the label %s, "+
				"create one with the name %q, or ask the cluster's operator to add the tenant to spec.allowedTenants of VPC %q",
			tenant,
			arktosv1.DefaultNetwork,
			arktosv1.NetworkLabel,
			arktosv1.DefaultNetwork,
			name,
		)}
	}
	if cause := checkVPC(tx, vpc); cause != nil {
		message := "the default network is not ready: " + cause.Message
		return Target{VPC: vpc}, &Refusal{v1alpha1.NetworkNotReadyReason, message}
	}
	return Target{VPC: vpc}, nil
}

// Find returns the Network that a name refers to in a namespace of a tenant. It returns the
// namespace's own Network, else the oldest one of a served type in the tenant's other namespaces,
// else nil.
func Find(tx store.ReadTx, tenant, namespace, name string) *store.Network {
	if own := store.GetNetwork(tx, namespace, name); own != nil {
		return own
	}
	all := store.NetworkByTenantName(tx, tenant, name)
	for _, net := range all {
		if Served(net.Type) {
			return net
		}
	}
	if len(all) > 0 {
		return all[0]
	}
	return nil
}

// Allows reports whether a tenant may use a VPC. An empty list allows no tenant.
func Allows(vpc *store.VPC, tenant string) bool {
	return Lists(vpc.AllowedTenants, tenant)
}

// Lists reports whether a list of allowed tenants contains a tenant: by its name, or
// by a pattern, v1alpha1.AnyTenant or AnyUnlabelled.
func Lists(allowed []string, tenant string) bool {
	return slices.Contains(allowed, tenant) || slices.Contains(allowed, v1alpha1.AnyTenant) ||
		!Labelled(tenant) && slices.Contains(allowed, v1alpha1.AnyUnlabelled)
}

// OfNamespace returns the tenant of a namespace. One whose event is still to come counts as a
// tenant of its own until then.
func OfNamespace(tx store.ReadTx, namespace string) string {
	if row := store.GetNamespace(tx, namespace); row != nil {
		return row.Tenant
	}
	return v1alpha1.TenantOfNamespace(namespace, nil)
}

// Labelled reports whether a tenant comes from the label of namespaces. Without the label, a
// tenant stands for a single namespace.
func Labelled(tenant string) bool { return !strings.HasPrefix(tenant, v1alpha1.NamespaceTenantPrefix) }

// CheckNetwork returns the refusal of pods by a Network of a served type, or nil. The reasons
// equal the reasons of a Network's Ready condition.
func CheckNetwork(tx store.ReadTx, net *store.Network) *Refusal {
	if net.Deleting {
		return &Refusal{v1alpha1.DeletingReason, "it is being deleted"}
	}
	vpc := store.GetVPC(tx, net.VPC)
	if vpc == nil {
		return &Refusal{v1alpha1.VPCNotFoundReason, fmt.Sprintf(
			"VPC %q does not exist: create it, or correct spec.vpcID", net.VPC)}
	}
	if !Allows(vpc, net.Tenant) {
		return &Refusal{v1alpha1.TenantNotAllowedReason, fmt.Sprintf(
			"VPC %q does not allow tenant %q: its owner can add the tenant to spec.allowedTenants", vpc.Name, net.Tenant)}
	}
	return checkVPC(tx, vpc)
}

func checkVPC(tx store.ReadTx, vpc *store.VPC) *Refusal {
	if vpc.Deleting {
		return &Refusal{v1alpha1.VPCNotReadyReason, fmt.Sprintf("VPC %q is being deleted", vpc.Name)}
	}
	if !vpc.Ready || vpc.VNI == 0 {
		return &Refusal{v1alpha1.VPCNotReadyReason, fmt.Sprintf(
			"VPC %q is not ready: see its Ready condition", vpc.Name)}
	}
	for _, subnet := range store.SubnetsByVPC(tx, vpc.Name) {
		if subnet.Ready && !subnet.Deleting && !subnet.ForServices {
			return nil
		}
	}
	return &Refusal{v1alpha1.NoReadySubnetReason, fmt.Sprintf(
		"VPC %q has no ready subnet for pods: its owner can create a Subnet, or correct what the condition Ready of a Subnet names",
		vpc.Name,
	)}
}
