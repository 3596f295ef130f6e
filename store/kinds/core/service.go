// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
)

// proxyNameLabel, with any value, leaves a Service to a proxy that is not the
// cluster's own.
const proxyNameLabel = "service.kubernetes.io/service-proxy-name"

// Service is the kind of a Service.
var Service = descriptor.Define(&all, descriptor.Description[*corev1.Service, store.Service]{
	Name: "Service", Object: &corev1.Service{}, List: &corev1.ServiceList{}, Convert: convertService,
	Table:  descriptor.InNamespace(store.GetService, store.PutService, store.DeleteService),
	OnNode: descriptor.Everything,
})

// convertService converts a Service. A headless one has no ClusterIPs, and one of a
// different proxy has no addresses of any kind, so that it is not served here. It never
// fails.
func convertService(in *corev1.Service) (*store.Service, error) {
	row := &store.Service{
		Meta:         values.Meta(in),
		Namespace:    in.Namespace,
		Name:         in.Name,
		Network:      in.Labels[arktosv1.NetworkLabel],
		Affinity:     affinity(&in.Spec),
		Selectorless: len(in.Spec.Selector) == 0,
		NodeLocal: valueOr(
			in.Spec.InternalTrafficPolicy,
			corev1.ServiceInternalTrafficPolicyCluster,
		) == corev1.ServiceInternalTrafficPolicyLocal,

		ExternalNodeLocal:   in.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
		HealthCheckNodePort: values.Port(in.Spec.HealthCheckNodePort),
	}
	_, row.OtherProxy = in.Labels[proxyNameLabel]
	if in.Spec.Type != corev1.ServiceTypeExternalName && !row.OtherProxy {
		row.ClusterIPs = values.HostAddrs(in.Spec.ClusterIPs)
		row.ExternalIPs = values.HostAddrs(in.Spec.ExternalIPs)
	}
	for _, port := range in.Spec.Ports {
		row.Ports = append(row.Ports, store.ServicePort{
			Name:     port.Name,
			Protocol: protocolOr(port.Protocol),
			Port:     values.Port(port.Port),
			NodePort: values.Port(port.NodePort),
		})
	}
	loadBalancer(row, in)
	row.Endpoints = endpointSelection(in)
	return row, nil
}

// endpointSelection returns the selection of endpoints in the annotations of a Service.
func endpointSelection(in *corev1.Service) *store.EndpointSelection {
	read, err := annotations.EndpointsOf(in.Annotations)
	switch {
	case err != nil:
		return &store.EndpointSelection{Problem: err.Error()}
	case read == nil:
		return nil
	}
	selection := &store.EndpointSelection{Selector: read.Selector}
	for _, name := range read.Networks {
		selection.Networks = append(selection.Networks, store.NetworkName(name))
	}
	return selection
}

// ServiceCIDR is the kind of a range of ClusterIPs.
var ServiceCIDR = descriptor.Define(&all, descriptor.Description[*networkingv1.ServiceCIDR, store.ServiceCIDR]{
	Name: "ServiceCIDR", Object: &networkingv1.ServiceCIDR{}, List: &networkingv1.ServiceCIDRList{}, Convert: convertServiceCIDR,
	Table:  descriptor.ByName(store.GetServiceCIDR, store.PutServiceCIDR, store.DeleteServiceCIDR),
	OnNode: descriptor.Everything,
})

// convertServiceCIDR converts a ServiceCIDR. It returns an error where a range can't be
// read, which the API server refuses.
func convertServiceCIDR(in *networkingv1.ServiceCIDR) (*store.ServiceCIDR, error) {
	prefixes, err := values.Prefixes(in.Spec.CIDRs)
	if err != nil {
		return nil, fmt.Errorf("convert ServiceCIDR %s: %w", in.Name, err)
	}
	return &store.ServiceCIDR{Meta: values.Meta(in), Name: in.Name, Prefixes: prefixes}, nil
}

// loadBalancer fills in the load balancer that a Service requests of Alioth.
func loadBalancer(row *store.Service, in *corev1.Service) {
	if row.OtherProxy || in.Spec.Type != corev1.ServiceTypeLoadBalancer ||
		valueOr(in.Spec.LoadBalancerClass, "") != v1alpha1.LoadBalancerClass {
		return
	}
	row.LoadBalancer = cmp.Or(in.Annotations[v1alpha1.LoadBalancerAnnotation], v1alpha1.LoadBalancerVPC)
	row.AskedIPs = cmp.Or(in.Annotations[v1alpha1.LoadBalancerIPsAnnotation], in.Spec.LoadBalancerIP)
	row.AskedPool = in.Annotations[v1alpha1.ExternalPoolAnnotation]
	if len(in.Spec.LoadBalancerSourceRanges) > 0 {
		row.SourceRanges = sourceRanges(in.Spec.LoadBalancerSourceRanges)
	}
}

// sourceRanges never returns nil. So a Service without a readable range admits no client.
func sourceRanges(texts []string) []netip.Prefix {
	ranges := []netip.Prefix{}
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil && !prefix.Addr().Is4In6() {
			ranges = append(ranges, prefix.Masked())
		}
	}
	return ranges
}

// affinity returns for how long a Service's clients stay with a backend.
func affinity(spec *corev1.ServiceSpec) time.Duration {
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	seconds := corev1.DefaultClientIPServiceAffinitySeconds
	if config := spec.SessionAffinityConfig; config != nil && config.ClientIP != nil {
		seconds = valueOr(config.ClientIP.TimeoutSeconds, seconds)
	}
	return time.Duration(seconds) * time.Second
}

// protocolOr returns the protocol, TCP where it is left out.
func protocolOr(protocol corev1.Protocol) string {
	if protocol == "" {
		return string(corev1.ProtocolTCP)
	}
	return string(protocol)
}
