// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"fmt"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// ScaledEndpoint is the kind of the operator's verdicts about Services. A node that follows it
// follows no Services, EndpointSlices and Networks.
var ScaledEndpoint = descriptor.Define(&all, descriptor.Description[*v1alpha1.ScaledEndpoint, scaled.Endpoint]{
	Name: "ScaledEndpoint", Object: &v1alpha1.ScaledEndpoint{}, List: &v1alpha1.ScaledEndpointList{}, Convert: convertScaledEndpoint,
	Table:  descriptor.ByName(scaled.Get, scaled.Put, scaled.Delete),
	OnNode: ofExposed,
	Of: descriptor.Scopes{
		descriptor.ServedVPC:     descriptor.WithField("spec.vpc"),
		descriptor.ServedNetwork: ofNetworkDomain,
	},
})

// ofExposed selects the objects that every node needs.
func ofExposed(string) descriptor.Scope {
	return descriptor.Scope{Fields: fields.OneTermEqualSelector("spec.exposed", "true")}
}

// ofNetworkDomain selects the verdicts in a network outside of every VPC, by its UID.
func ofNetworkDomain(uid string) descriptor.Scope {
	return descriptor.Scope{Fields: fields.OneTermEqualSelector("spec.vpc", store.NetworkRef{UID: uid}.Domain())}
}

// convertScaledEndpoint converts a ScaledEndpoint. It returns an error where an address or a
// range can't be read: only the operator writes them.
func convertScaledEndpoint(in *v1alpha1.ScaledEndpoint) (*scaled.Endpoint, error) {
	row := &scaled.Endpoint{
		Meta: values.Meta(in), Name: in.Name, Part: int(in.Spec.Part),
		ID: scaled.ID{
			Namespace: in.Spec.Service.Namespace, Service: in.Spec.Service.Name, ServiceUID: in.Spec.Service.UID,
			VPC: in.Spec.VPC, VPCUID: in.Spec.VPCUID, Exposed: in.Spec.Exposed,
		},
	}
	var err error
	if row.Head, err = scaledHead(in.Spec.Head); err != nil {
		return nil, fmt.Errorf("convert ScaledEndpoint %s: %w", in.Name, err)
	}
	for _, group := range in.Spec.Groups {
		targets, err := scaledTargets(group.Targets)
		if err != nil {
			return nil, fmt.Errorf("convert ScaledEndpoint %s: %w", in.Name, err)
		}
		for i := range group.Backends {
			backend, err := scaledBackend(&group.Backends[i], targets)
			if err != nil {
				return nil, fmt.Errorf("convert ScaledEndpoint %s: %w", in.Name, err)
			}
			row.Backends = append(row.Backends, backend)
		}
	}
	return row, nil
}

func scaledHead(in *v1alpha1.ScaledHead) (*scaled.Head, error) {
	if in == nil {
		return nil, nil
	}
	head := &scaled.Head{
		Created: in.Created.Time, Tenant: in.Tenant, ExternalLoadBalancer: in.ExternalLoadBalancer,
		HealthCheckNodePort: values.Port(in.HealthCheckNodePort),
		Affinity:            time.Duration(in.AffinitySeconds) * time.Second,
		NodeLocal:           in.NodeLocal,
		ExternalNodeLocal:   in.ExternalNodeLocal,
		Shared:              in.Shared, LeftOut: in.LeftOut, AllJudged: int(in.AllJudged), UsedRows: int(in.Usage.Rows),
		UsedBackends: int(in.Usage.Backends),
	}
	lists := map[*[]netip.Addr][]string{
		&head.ClusterIPs:      in.ClusterIPs,
		&head.LoadBalancerIPs: in.LoadBalancerIPs,
		&head.ExternalIPs:     in.ExternalIPs,
	}
	for to, texts := range lists {
		addrs, err := values.Addrs(texts)
		if err != nil {
			return nil, err
		}
		if len(addrs) > 0 {
			*to = addrs
		}
	}
	ranges, err := values.Prefixes(in.SourceRanges)
	if err != nil {
		return nil, err
	}
	if in.Restricted {
		head.SourceRanges = append([]netip.Prefix{}, ranges...)
	}
	if head.InVPC, err = scaledVPC(in.InVPC); err != nil {
		return nil, err
	}
	for _, port := range in.Ports {
		if err := knownProtocol("spec.head.ports.protocol", port.Protocol); err != nil {
			return nil, err
		}
		head.Ports = append(
			head.Ports,
			store.ServicePort{Protocol: port.Protocol, Port: values.Port(port.Port), NodePort: values.Port(port.NodePort)},
		)
	}
	return head, nil
}

func scaledVPC(in *v1alpha1.ScaledVPC) (*scaled.VPC, error) {
	if in == nil {
		return nil, nil
	}
	prefixes, err := values.Prefixes(in.CIDRs)
	return &scaled.VPC{VNI: uint32(in.VNI), Prefixes: prefixes}, err
}

func scaledTargets(in []v1alpha1.ScaledTarget) (targets []scaled.Target, err error) {
	for _, target := range in {
		if err := knownProtocol("spec.groups.targets.protocol", target.Protocol); err != nil {
			return nil, err
		}
		targets = append(
			targets,
			scaled.Target{Protocol: target.Protocol, Port: values.Port(target.Port), Target: values.Port(target.Target)},
		)
	}
	return targets, nil
}

func knownProtocol(field, protocol string) error {
	return values.Known(field, protocol, "TCP", "UDP", "SCTP")
}

func scaledBackend(in *v1alpha1.ScaledBackend, targets []scaled.Target) (scaled.Backend, error) {
	ip, err := values.Addr(in.IP)
	return scaled.Backend{
		IP: ip, Node: in.Node, PodUID: in.PodUID, Terminating: in.Terminating, Outside: in.Outside, OnHost: in.OnHost,
		Listed:   in.Listed,
		ForNodes: in.ForNodes, ForZones: in.ForZones, Targets: targets,
	}, err
}
