// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scaled

import (
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
)

// specOf returns a part as the object has it.
func specOf(row *scaled.Endpoint) v1alpha1.ScaledEndpointSpec {
	return v1alpha1.ScaledEndpointSpec{
		Service: v1alpha1.ScaledService{Namespace: row.Namespace, Name: row.Service, UID: row.ServiceUID},
		VPC:     row.VPC, VPCUID: row.VPCUID, Exposed: row.Exposed, Part: int32(row.Part), Head: headOf(row.Head),
		Groups: groupsOf(row.Backends),
	}
}

func headOf(row *scaled.Head) *v1alpha1.ScaledHead {
	if row == nil {
		return nil
	}
	head := &v1alpha1.ScaledHead{
		Created: metav1.NewTime(row.Created), Tenant: row.Tenant,
		ClusterIPs: texts(row.ClusterIPs), LoadBalancerIPs: texts(row.LoadBalancerIPs), ExternalIPs: texts(row.ExternalIPs),
		ExternalLoadBalancer: row.ExternalLoadBalancer, HealthCheckNodePort: int32(row.HealthCheckNodePort),
		AffinitySeconds: int32(
			row.Affinity / time.Second,
		), NodeLocal: row.NodeLocal, ExternalNodeLocal: row.ExternalNodeLocal,
		Restricted: row.SourceRanges != nil, Shared: row.Shared, LeftOut: row.LeftOut, AllJudged: int32(row.AllJudged),
		Usage: v1alpha1.ScaledUsage{Rows: int32(row.UsedRows), Backends: int32(row.UsedBackends)},
	}
	head.SourceRanges = prefixTexts(row.SourceRanges)
	if vpc := row.InVPC; vpc != nil {
		head.InVPC = &v1alpha1.ScaledVPC{VNI: int32(vpc.VNI), CIDRs: prefixTexts(vpc.Prefixes)}
	}
	for _, port := range row.Ports {
		head.Ports = append(
			head.Ports,
			v1alpha1.ScaledPort{Protocol: port.Protocol, Port: int32(port.Port), NodePort: int32(port.NodePort)},
		)
	}
	return head
}

func texts(addrs []netip.Addr) (list []string) {
	for _, addr := range addrs {
		list = append(list, addr.String())
	}
	return list
}

func prefixTexts(prefixes []netip.Prefix) (list []string) {
	for _, prefix := range prefixes {
		list = append(list, prefix.String())
	}
	return list
}

// groupsOf puts backends with the same targets together, in the order of the targets.
func groupsOf(backends []scaled.Backend) (groups []v1alpha1.ScaledGroup) {
	sorted := slices.SortedStableFunc(slices.Values(backends), func(a, b scaled.Backend) int {
		return services.CompareTargets(a.Targets, b.Targets)
	})
	for i, row := range sorted {
		if i == 0 || services.CompareTargets(sorted[i-1].Targets, row.Targets) != 0 {
			groups = append(groups, v1alpha1.ScaledGroup{Targets: targetsOf(row.Targets)})
		}
		group := &groups[len(groups)-1]
		group.Backends = append(group.Backends, v1alpha1.ScaledBackend{
			IP: row.IP.String(), Node: row.Node, PodUID: row.PodUID, Terminating: row.Terminating, Outside: row.Outside,
			OnHost: row.OnHost, Listed: row.Listed,
			ForNodes: row.ForNodes, ForZones: row.ForZones,
		})
	}
	return groups
}

func targetsOf(rows []scaled.Target) (list []v1alpha1.ScaledTarget) {
	for _, row := range rows {
		list = append(list, v1alpha1.ScaledTarget{Protocol: row.Protocol, Port: int32(row.Port), Target: int32(row.Target)})
	}
	return list
}
