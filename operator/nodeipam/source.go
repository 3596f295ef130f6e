// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeipam decides for pods whose addresses other CNI plugins ask the node IPAM API
// for, and reports these decisions in the objects of that API (docs/design/130).
package nodeipam

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// Source returns the source of attachments on nodes with the label of the API. There, each pod gets
// an address of the infrastructure subnet and, if its labels ask for it, interfaces in PodNetworks.
// Other pods, and pods that request networks of Alioth, are for the next source.
func Source(infraSubnet string, next pod.Source) pod.Source {
	return func(tx store.ReadTx, p *store.Pod) ([]pod.Desired, *tenancy.Refusal) {
		if !asks(p) && store.GetNode(tx, p.Node) == nil {
			// A pod may be bound before its node is seen here, as pods of DaemonSets are. The pod
			// would keep an address that it gets now, whatever the node's labels are.
			return nil, &tenancy.Refusal{Message: fmt.Sprintf("node %s is not known yet", p.Node)}
		}
		if !Serves(tx, p) {
			if !asks(p) && IsMultitenant(p) {
				return nil, unlabelled(p)
			}
			return next(tx, p)
		}
		infra, refusal := infrastructure(tx, infraSubnet)
		if refusal != nil {
			return nil, refusal
		}
		delegated, refusal := delegated(tx, p)
		if refusal != nil {
			return nil, refusal
		}
		return append([]pod.Desired{infra}, delegated...), nil
	}
}

// unlabelled refuses a pod that asks for the network of a tenant on a node without the node IPAM
// API. Otherwise the pod would be in the default VPC. It would look attached, and reach nothing of
// its tenant's network.
func unlabelled(p *store.Pod) *tenancy.Refusal {
	label := multitenancyv1alpha1.PodNetworkLabel
	if _, named := p.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel]; named {
		label = multitenancyv1alpha1.PodNetworkInstanceLabel
	}
	return refuse(
		v1alpha1.NodeNotMultitenantReason,
		"the pod has the label %s, and node %s lacks the label %s: schedule the pod to a node with that label, for example by a nodeSelector, or remove the pod's label",
		label,
		p.Node,
		multitenancyv1alpha1.NodeLabel,
	)
}

// Serves reports whether the API serves a pod where it is bound: by the node's label, and
// unless the pod requests networks of Alioth.
func Serves(tx store.ReadTx, p *store.Pod) bool {
	node := store.GetNode(tx, p.Node)
	return node != nil && node.NodeIPAM && !asks(p)
}

// asks reports whether a pod requests networks of Alioth, on nodes of every kind.
func asks(p *store.Pod) bool {
	return p.Network != "" || p.NIC != "" || p.Interfaces != "" || p.InterfacesProblem != "" || p.Selections != ""
}

// IsMultitenant reports whether a pod asks for the network of a tenant: it has one of the
// labels, whatever the value.
func IsMultitenant(p *store.Pod) bool {
	_, network := p.Labels[multitenancyv1alpha1.PodNetworkLabel]
	_, instance := p.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel]
	return network || instance
}

// infrastructure returns the interface that every pod has.
func infrastructure(tx store.ReadTx, name string) (pod.Desired, *tenancy.Refusal) {
	subnet := store.GetSubnet(tx, name)
	if subnet == nil {
		return pod.Desired{}, refuse(
			v1alpha1.SubnetNotFoundReason,
			"there is no Subnet %q for infrastructure pods: create it, or correct the chart's nodeIPAM.infraSubnet",
			name,
		)
	}
	return pod.Desired{
		Interface: v1alpha1.PodAttachment, Kind: netif.KindExternal, Binding: pod.Binding{VPC: subnet.VPC},
		Subnet: subnet.Name,
	}, nil
}

// delegated returns the interfaces in PodNetworks that a pod asks for.
func delegated(tx store.ReadTx, p *store.Pod) ([]pod.Desired, *tenancy.Refusal) {
	if !IsMultitenant(p) {
		return nil, nil
	}
	instance, named := p.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel]
	if named {
		if refusal := readyInstance(tx, p.Namespace, instance); refusal != nil {
			return nil, refusal
		}
	}
	devices := offered(tx, p.Node)
	var desired []pod.Desired
	for i, name := range PodNetworks(tx, p) {
		network, refusal := readyNetwork(tx, name, p.Tenant)
		if refusal != nil {
			return nil, refusal
		}
		one := pod.Desired{
			Interface: interfaceOf(i), Kind: netif.KindExternal, Binding: pod.Binding{VPC: network.VPC},
			Subnet: network.Subnet, NoDefaultRoute: i > 0, Devices: devices,
		}
		if named {
			one.Instance, one.PodNetwork = p.Namespace+"/"+instance, name
		}
		desired = append(desired, one)
	}
	return desired, nil
}

// PodNetworks lists the names of the PodNetworks that a pod asks for, in the order of its
// interfaces: the PodNetworks of its instance, which may be missing, or the one of its label.
func PodNetworks(tx store.ReadTx, p *store.Pod) []string {
	instance, named := p.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel]
	if !named {
		return []string{p.Labels[multitenancyv1alpha1.PodNetworkLabel]}
	}
	var names []string
	if row := nodeipam.ServingInstance(tx, p.Namespace, instance); row != nil {
		for _, one := range row.Interfaces {
			names = append(names, one.PodNetwork)
		}
	}
	return names
}

// interfaceOf names the interface in the PodNetwork of an index.
func interfaceOf(index int) string { return fmt.Sprintf("eth%d", index+1) }

// IndexOf returns the index of the PodNetwork of an interface; false for the first interface and
// for names that interfaces of the API do not have.
func IndexOf(name string) (int, bool) {
	number, err := strconv.Atoi(strings.TrimPrefix(name, "eth"))
	if err != nil || number < 1 || interfaceOf(number-1) != name {
		return 0, false
	}
	return number - 1, true
}

func readyInstance(tx store.ReadTx, namespace, name string) *tenancy.Refusal {
	instance := nodeipam.ServingInstance(tx, namespace, name)
	switch {
	case instance == nil:
		return refuse(
			v1alpha1.PodNetworkInstanceNotFoundReason,
			"there is no PodNetworkInstance %q in namespace %q: create it, or correct the label %s",
			name,
			namespace,
			multitenancyv1alpha1.PodNetworkInstanceLabel,
		)
	case !instance.Deleting && !instance.Ready && instance.Reason == v1alpha1.ForeignDefinitionReason:
		return refuse(
			v1alpha1.PodNetworkInstanceNotReadyReason,
			"PodNetworkInstance %s/%s is not Ready: %s",
			namespace,
			name,
			instance.Message,
		)
	case instance.Deleting || !instance.Ready:
		return refuse(
			v1alpha1.PodNetworkInstanceNotReadyReason,
			"PodNetworkInstance %s/%s is not Ready: see `%s`",
			namespace,
			name,
			instance.Describe(),
		)
	case len(instance.Interfaces) == 0:
		return refuse(
			v1alpha1.PodNetworkInstanceNotReadyReason,
			"PodNetworkInstance %s/%s names no PodNetwork: add one to spec.podNetworkConfigs",
			namespace,
			name,
		)
	}
	return nil
}

func readyNetwork(tx store.ReadTx, name, tenant string) (*nodeipam.PodNetwork, *tenancy.Refusal) {
	network := nodeipam.ServingPodNetwork(tx, name)
	switch {
	case network == nil:
		return nil, refuse(
			v1alpha1.PodNetworkNotReadyReason,
			"there is no PodNetwork %q: create it, or correct the name",
			name,
		)
	case network.Deleting || !network.Ready:
		return nil, refuse(
			v1alpha1.PodNetworkNotReadyReason,
			"PodNetwork %q is not Ready: see `%s`",
			name,
			network.Describe(),
		)
	}
	if vpc := store.GetVPC(tx, network.VPC); vpc == nil || !tenancy.Allows(vpc, tenant) {
		return nil, refuse(
			v1alpha1.TenantNotAllowedReason,
			"VPC %q of PodNetwork %q does not allow tenant %q: ask the cluster's operator to add it to spec.allowedTenants",
			network.VPC,
			name,
			tenant,
		)
	}
	return network, nil
}

// offered lists the devices that a node offers, never nil.
func offered(tx store.ReadTx, node string) []string {
	devices := []string{}
	for _, info := range nodeipam.NodeInfosOf(tx, node) {
		devices = append(devices, info.MACs...)
	}
	slices.Sort(devices)
	return slices.Compact(devices)
}

func refuse(reason, format string, args ...any) *tenancy.Refusal {
	return &tenancy.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
