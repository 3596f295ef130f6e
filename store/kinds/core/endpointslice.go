// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
)

// EndpointSlice is the kind of a list of backends of a Service.
var EndpointSlice = descriptor.Define(&all, descriptor.Description[*discoveryv1.EndpointSlice, store.EndpointSlice]{
	Name: "EndpointSlice", Object: &discoveryv1.EndpointSlice{}, List: &discoveryv1.EndpointSliceList{}, Convert: convertEndpointSlice,
	Table:  descriptor.InNamespace(store.GetEndpointSlice, store.PutEndpointSlice, store.DeleteEndpointSlice),
	OnNode: ofServed,
})

// ofServed selects the EndpointSlices of all Services that are not headless: those
// have a virtual address.
func ofServed(string) descriptor.Scope {
	headless, err := labels.NewRequirement(corev1.IsHeadlessService, selection.DoesNotExist, nil)
	if err != nil {
		panic(err) // the label's name is a constant
	}
	return descriptor.Scope{Labels: labels.NewSelector().Add(*headless)}
}

// convertEndpointSlice converts an EndpointSlice. Endpoints of address type FQDN have
// no addresses. It never fails.
func convertEndpointSlice(in *discoveryv1.EndpointSlice) (*store.EndpointSlice, error) {
	row := &store.EndpointSlice{
		Meta:      values.Meta(in),
		Namespace: in.Namespace,
		Name:      in.Name,
		Service:   in.Labels[discoveryv1.LabelServiceName],
		Managed:   in.Labels[discoveryv1.LabelManagedBy] == v1alpha1.EndpointsManager,
		Domain:    in.Labels[v1alpha1.DomainLabel],
	}
	for i := range in.Ports {
		row.Ports = append(row.Ports, slicePort(&in.Ports[i]))
	}
	for i := range in.Endpoints {
		one := endpoint(&in.Endpoints[i])
		one.Named = row.Domain != ""
		row.Endpoints = append(row.Endpoints, one)
	}
	return row, nil
}

func slicePort(in *discoveryv1.EndpointPort) store.ServicePort {
	port := store.ServicePort{Protocol: string(corev1.ProtocolTCP)}
	if in.Name != nil {
		port.Name = *in.Name
	}
	if in.Protocol != nil {
		port.Protocol = protocolOr(*in.Protocol)
	}
	if in.Port != nil {
		port.Port = values.Port(*in.Port)
	}
	return port
}

// endpoint converts one endpoint. An unknown condition counts as the API specifies:
// ready and serving are then true, terminating is false.
func endpoint(in *discoveryv1.Endpoint) store.Endpoint {
	out := store.Endpoint{
		Addresses:   values.HostAddrs(in.Addresses),
		Ready:       valueOr(in.Conditions.Ready, true),
		Terminating: valueOr(in.Conditions.Terminating, false) && valueOr(in.Conditions.Serving, true),
	}
	if in.NodeName != nil {
		out.Node = *in.NodeName
	}
	if in.TargetRef != nil && in.TargetRef.Kind == "Pod" {
		out.PodUID = string(in.TargetRef.UID)
	}
	if in.Hints != nil {
		for _, zone := range in.Hints.ForZones {
			out.ForZones = append(out.ForZones, zone.Name)
		}
		for _, node := range in.Hints.ForNodes {
			out.ForNodes = append(out.ForNodes, node.Name)
		}
	}
	return out
}

func valueOr[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}
