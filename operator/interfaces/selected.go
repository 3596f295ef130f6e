// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// selected resolves the definitions that a pod selects by k8s.v1.cni.cncf.io/networks, in
// their order, or refuses the pod.
func (cfg Config) selected(tx store.ReadTx, p *store.Pod) ([]request, *tenancy.Refusal) {
	if !slices.Contains(cfg.Annotations, AnnotationNPWG) {
		return nil, nil
	}
	list, err := annotations.ParseNetworks(p.Selections, p.Namespace)
	if err != nil {
		return nil, invalid("annotation %s: %v", annotations.NetworksKey, err)
	}
	var requests []request
	for _, selection := range list {
		r, refusal := cfg.selection(tx, p, selection)
		if refusal != nil {
			return nil, &tenancy.Refusal{
				Reason:  refusal.Reason,
				Message: fmt.Sprintf("interface %s: %s", selection.Interface, refusal.Message),
			}
		}
		requests = append(requests, r)
	}
	return requests, nil
}

// selection resolves one element of the annotation.
func (cfg Config) selection(tx store.ReadTx, p *store.Pod, s annotations.NetworkSelection) (request, *tenancy.Refusal) {
	def, refusal := cfg.selectable(tx, p, s)
	if refusal != nil {
		return request{}, refusal
	}
	if def.Target.Kind == "" {
		return cfg.delegated(tx, p, def, s)
	}
	one, refusal := interfaceOf(tx, p, def, s)
	if refusal != nil {
		return request{}, refusal
	}
	r, refusal := cfg.resolve(tx, p, one)
	r.name, r.definition = s.Interface, s.Namespace+"/"+s.Name
	r.defaultRoute, r.gateways = s.DefaultRoute, s.Gateways
	r.ignoreForPlugins(def, s)
	r.ignoreForeign(s)
	if refusal == nil {
		refusal = cfg.define(tx, p, &r, def)
	}
	return r, refusal
}

// selectable returns the definition that a pod selects, if the pod may use it: it is in the pod's
// namespace, in another namespace of the pod's tenant, or in a namespace that administrators share.
func (cfg Config) selectable(
	tx store.ReadTx,
	p *store.Pod,
	s annotations.NetworkSelection,
) (*multinet.Definition, *tenancy.Refusal) {
	if !cfg.Sharing.Shares(tx, p.Namespace, p.Tenant, s.Namespace) {
		return nil, &tenancy.Refusal{Reason: v1alpha1.TenantNotAllowedReason, Message: fmt.Sprintf(
			"namespace %q is not of the pod's tenant, and its definitions are not shared with namespace %q: select a %s in a namespace of the tenant, or ask the cluster administrator for a DelegationGrant with spec.namespaces: [%s] and spec.fromNamespaces: [%s]",
			s.Namespace,
			p.Namespace,
			multinet.KindDefinition,
			p.Namespace,
			s.Namespace,
		)}
	}
	def := multinet.GetDefinition(tx, s.Namespace, s.Name)
	switch {
	case def == nil:
		return nil, &tenancy.Refusal{Reason: v1alpha1.NetworkNotFoundReason, Message: fmt.Sprintf(
			"%s %s/%s does not exist: create it, or correct the annotation %s",
			multinet.KindDefinition,
			s.Namespace,
			s.Name,
			annotations.NetworksKey,
		)}
	case def.Deleting:
		return nil, &tenancy.Refusal{Reason: v1alpha1.NetworkNotReadyReason, Message: fmt.Sprintf("%s is being deleted", def)}
	case def.Problem != "":
		return nil, &tenancy.Refusal{
			Reason:  v1alpha1.NetworkNotReadyReason,
			Message: fmt.Sprintf("%s can't be used: %s", def, def.Problem),
		}
	}
	return def, nil
}

// interfaceOf returns the request for an interface in the network of a definition.
func interfaceOf(
	tx store.ReadTx,
	p *store.Pod,
	def *multinet.Definition,
	s annotations.NetworkSelection,
) (annotations.Interface, *tenancy.Refusal) {
	one := annotations.Interface{Target: annotations.Target(def.Target)}
	for _, ip := range s.IPs {
		to := &one.IP6
		if ip.IP.Is4() {
			to = &one.IP
		}
		if to.Mode != annotations.AddressAbsent {
			return one, invalid("\"ips\" has more than one address of a family, and an interface in %s has one: keep one", def)
		}
		*to = annotations.AddressRequest{Mode: annotations.AddressStatic, IP: ip.IP}
	}
	if one.Kind == annotations.TargetVPC {
		return one, nameVPC(tx, def, &one)
	}
	if one.Kind != annotations.TargetClusterNetwork && def.Namespace != p.Namespace {
		return one, &tenancy.Refusal{Reason: v1alpha1.TenantNotAllowedReason, Message: fmt.Sprintf(
			"%s stands for a %s of its namespace, which pods of other namespaces can't use", def, one.Kind)}
	}
	if net := multinet.Find(tx, one.Kind, namespaceOf(one.Kind, p), one.Name); net != nil {
		chooseRest(&one.IP, net.V4.Prefix)
		chooseRest(&one.IP6, net.V6.Prefix)
	}
	return one, nil
}

// chooseRest requests an address from each range that the pod has not requested one from.
func chooseRest(to *annotations.AddressRequest, prefix netip.Prefix) {
	if to.Mode == annotations.AddressAbsent && prefix.IsValid() {
		to.Mode = annotations.AddressDynamic
	}
}

// nameVPC completes the request of a definition that names a Subnet alone.
func nameVPC(tx store.ReadTx, def *multinet.Definition, one *annotations.Interface) *tenancy.Refusal {
	if one.Name != "" {
		return nil
	}
	subnet := store.GetSubnet(tx, one.Subnet)
	if subnet == nil {
		return &tenancy.Refusal{Reason: v1alpha1.NetworkNotFoundReason, Message: fmt.Sprintf(
			"%s names the Subnet %q, which does not exist: create it, or correct the annotation %s",
			def,
			one.Subnet,
			annotations.KuryrConfigKey,
		)}
	}
	one.Name = subnet.VPC
	return nil
}
