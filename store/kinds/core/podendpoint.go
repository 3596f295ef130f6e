// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/store"
)

// PodEndpoint returns a pod's values for endpoints of Services.
func PodEndpoint(in *corev1.Pod) *store.PodEndpoint {
	endpoint := &store.PodEndpoint{Hostname: in.Spec.Hostname, Subdomain: in.Spec.Subdomain}
	for _, condition := range in.Status.Conditions {
		if condition.Type == corev1.PodReady {
			endpoint.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	for i := range in.Spec.Containers {
		endpoint.Ports = append(endpoint.Ports, namedPorts(&in.Spec.Containers[i])...)
	}
	for i := range in.Spec.InitContainers {
		if isSidecar(&in.Spec.InitContainers[i]) {
			endpoint.Ports = append(endpoint.Ports, namedPorts(&in.Spec.InitContainers[i])...)
		}
	}
	return endpoint
}

func namedPorts(container *corev1.Container) []store.NamedPort {
	var list []store.NamedPort
	for _, port := range container.Ports {
		if port.Name != "" {
			list = append(list, store.NamedPort{
				Name: port.Name, Protocol: string(cmp.Or(port.Protocol, corev1.ProtocolTCP)), Port: port.ContainerPort,
			})
		}
	}
	return list
}
