// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces

import (
	"fmt"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/multinet"
	"github.com/alioth-net/alioth/store/tenancy"
)

// DefaultLimit is the default of Config.Limit.
const DefaultLimit = 16

// Config is the part of the operator's configuration that these decisions depend on.
type Config struct {
	// DefaultVPC is the VPC of pods that name no network and have no default network.
	DefaultVPC string
	// VPCTypes are types of networks, in lower case, that stand for the pod's VPC.
	VPCTypes []string
	// Kinds are the drivers that nodes have for networks outside of VPCs.
	Kinds []string
	// LegacyNames names interfaces by container_prefix alone.
	LegacyNames bool
	// Limit is the highest number of interfaces of a pod.
	Limit int
}

// Source returns the source of the interfaces that a pod requests. Without a request the
// pod gets one interface, in its default network.
func Source(cfg Config) pod.Source {
	primary := pod.Primary(cfg.DefaultVPC)
	return func(tx store.ReadTx, p *store.Pod) ([]pod.Wish, *tenancy.Refusal) {
		if p.InterfacesProblem != "" {
			return nil, invalid("%s", p.InterfacesProblem)
		}
		list, err := annotations.ParseInterfaces(p.Interfaces)
		switch {
		case err != nil:
			return nil, invalid("annotation %s: %v", annotations.InterfacesKey, err)
		case len(list) > cfg.Limit:
			return nil, invalid("annotation %s: it requests %d interfaces, and a pod may have %d (operator's flag --interfaces-per-pod)", annotations.InterfacesKey, len(list), cfg.Limit)
		case len(list) > 0 && p.NIC != "":
			return nil, invalid("the pod has the annotations %s and %s, which both request its first interface: remove one", annotations.InterfacesKey, arktosv1.NICAnnotation)
		case len(list) > 0:
			return cfg.listed(tx, p, list)
		}
		if net := defaultNetwork(tx, p); net != nil {
			return cfg.listed(tx, p, []annotations.Interface{defaultRequest(net)})
		}
		return primary(tx, p)
	}
}

func invalid(format string, args ...any) *tenancy.Refusal {
	return &tenancy.Refusal{Reason: v1alpha1.InterfacesInvalidReason, Message: fmt.Sprintf(format, args...)}
}

// defaultNetwork returns the network outside of VPCs that a pod without a request gets,
// nil where it gets a VPC: that of its label or of its tenant's Network precedes a
// ClusterNetwork (DANM user guide, "Defining default networks"). The annotation nic requests
// a subnet or an address of a VPC.
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
