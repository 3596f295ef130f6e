// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// DefaultLimit is the default of Config.Limit.
const DefaultLimit = 16

// Annotations that may request interfaces of pods (Config.Annotations).
const (
	// AnnotationDANM means danm.k8s.io/interfaces and danm.io/interfaces.
	AnnotationDANM = "danm"
	// AnnotationNPWG means k8s.v1.cni.cncf.io/networks.
	AnnotationNPWG = "npwg"
)

// Config is the part of the operator's configuration that these decisions depend on.
type Config struct {
	// DefaultVPC is the VPC of pods that name no network and have no default network.
	DefaultVPC string
	// VPCTypes are types of networks, in lower case, that stand for the pod's VPC.
	VPCTypes []string
	// Kinds are the drivers that nodes have for networks outside of VPCs.
	Kinds []string
	// Annotations lists the annotations that count: AnnotationDANM, AnnotationNPWG.
	Annotations []string
	// Delegation: nodes run other CNI plugins, where a DelegationGrant permits it.
	Delegation bool
	// LegacyNames names interfaces by container_prefix alone.
	LegacyNames bool
	// Limit is the highest number of interfaces of a pod.
	Limit int
	// Links is how many links the definitions of a namespace may have; 0 for any number.
	Links int
	// Sharing is whose definitions pods of other namespaces may select.
	Sharing multinet.Sharing
}

// Source returns the source of the interfaces that a pod requests: the interfaces of the interfaces
// annotation, by default one in its default network, and the interfaces of selected definitions.
func Source(cfg Config) pod.Source {
	primary := pod.Primary(cfg.DefaultVPC)
	return func(tx store.ReadTx, p *store.Pod) ([]pod.Desired, *tenancy.Refusal) {
		requests, refusal := cfg.first(tx, p, primary)
		if refusal != nil {
			return nil, refusal
		}
		selected, refusal := cfg.selected(tx, p)
		if refusal != nil {
			return nil, refusal
		}
		return cfg.desired(tx, p, append(requests, selected...))
	}
}

// first returns the interfaces that a pod has without selections: the interfaces of its list, the
// one in the definition that it names as its default network, or the one in the default network
// that it gets without a request.
func (cfg Config) first(tx store.ReadTx, p *store.Pod, primary pod.Source) ([]request, *tenancy.Refusal) {
	list, refusal := cfg.listedBy(p)
	if refusal != nil {
		return nil, refusal
	}
	chosen, refusal := cfg.chosenDefault(tx, p, len(list) > 0)
	switch {
	case refusal != nil || chosen != nil:
		return chosen, refusal
	case len(list) > 0:
		return cfg.listed(tx, p, list)
	}
	if net := defaultNetwork(tx, p); net != nil {
		return cfg.listed(tx, p, []annotations.Interface{defaultRequest(net)})
	}
	return inPrimary(tx, p, primary)
}

// chosenDefault returns the first interface of a pod that names a definition for it, nil for
// others. The pod has only the rights of a selection.
func (cfg Config) chosenDefault(tx store.ReadTx, p *store.Pod, listed bool) ([]request, *tenancy.Refusal) {
	if !slices.Contains(cfg.Annotations, AnnotationNPWG) {
		return nil, nil
	}
	selection, err := annotations.ParseDefaultNetwork(p.DefaultSelection, p.Namespace)
	switch {
	case err != nil:
		return nil, invalid("annotation %s: %v", annotations.DefaultNetworkKey, err)
	case selection == nil:
		return nil, nil
	case listed || p.NIC != "":
		other := arktosv1.NICAnnotation
		if listed {
			other = annotations.InterfacesKey
		}
		return nil, invalid(
			"the pod has the annotations %s and %s, which both request its first interface: remove one",
			annotations.DefaultNetworkKey,
			other,
		)
	}
	r, refusal := cfg.selection(tx, p, *selection)
	if refusal != nil {
		return nil, &tenancy.Refusal{
			Reason:  refusal.Reason,
			Message: fmt.Sprintf("annotation %s: %s", annotations.DefaultNetworkKey, refusal.Message),
		}
	}
	return []request{r}, nil
}

// listedBy reads the interfaces annotation of a pod.
func (cfg Config) listedBy(p *store.Pod) ([]annotations.Interface, *tenancy.Refusal) {
	if !slices.Contains(cfg.Annotations, AnnotationDANM) {
		return nil, nil
	}
	if p.InterfacesProblem != "" {
		return nil, invalid("%s", p.InterfacesProblem)
	}
	list, err := annotations.ParseInterfaces(p.Interfaces)
	switch {
	case err != nil:
		return nil, invalid("annotation %s: %v", p.InterfacesKey, err)
	case len(list) > 0 && p.NIC != "":
		return nil, invalid(
			"the pod has the annotations %s and %s, which both request its first interface: remove one",
			p.InterfacesKey,
			arktosv1.NICAnnotation,
		)
	}
	return list, nil
}

// inPrimary returns the first interface of a pod whose first network is a VPC.
func inPrimary(tx store.ReadTx, p *store.Pod, primary pod.Source) ([]request, *tenancy.Refusal) {
	desired, refusal := primary(tx, p)
	if refusal != nil {
		return nil, refusal
	}
	var requests []request
	for _, one := range desired {
		requests = append(
			requests,
			request{name: one.Interface, decided: &one, target: tenancy.Target{VPC: store.GetVPC(tx, one.VPC)}},
		)
	}
	return requests, nil
}

func invalid(format string, args ...any) *tenancy.Refusal {
	return &tenancy.Refusal{Reason: v1alpha1.InterfacesInvalidReason, Message: fmt.Sprintf(format, args...)}
}

// defaultNetwork returns the network outside of VPCs that a pod without a request gets, nil where
// it gets a VPC. The VPC of its label, or of its tenant's Network, precedes a ClusterNetwork (DANM
// user guide, "Defining default networks"). The annotation nic requests a subnet or an address of a
// VPC.
func defaultNetwork(tx store.ReadTx, p *store.Pod) *multinet.Network {
	if p.Network != "" || p.NIC != "" {
		return nil
	}
	for _, kind := range []string{multinet.KindDanmNet, multinet.KindTenantNetwork} {
		if net := multinet.Find(tx, kind, p.Namespace, defaultName); net != nil {
			return net
		}
	}
	if tenancy.Find(tx, p.Tenant, p.Namespace, defaultName) != nil {
		return nil
	}
	return multinet.Find(tx, multinet.KindClusterNetwork, "", defaultName)
}

// defaultName is the name of default networks of every kind.
const defaultName = "default"

// defaultRequest requests a dynamic address of the first family that the network has.
func defaultRequest(net *multinet.Network) annotations.Interface {
	one := annotations.Interface{Target: annotations.Target{Kind: net.Kind, Name: net.Name}}
	if net.V6.Prefix.IsValid() && !net.V4.Prefix.IsValid() {
		one.IP6.Mode = annotations.AddressDynamic
	} else {
		one.IP.Mode = annotations.AddressDynamic
	}
	return one
}
