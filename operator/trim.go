// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// trim takes from a cached object what the operator never reads. Of pods and
// nodes, of which there may be many thousands, that is most of it.
func trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	switch object := object.(type) {
	case *corev1.Pod:
		object.Spec = trimSpec(&object.Spec)
		object.Status = trimStatus(object)
	case *corev1.Node:
		object.Spec = corev1.NodeSpec{Taints: object.Spec.Taints}
		object.Status = corev1.NodeStatus{
			Addresses: object.Status.Addresses, Conditions: readyOf(object.Status.Conditions), Allocatable: podsOf(object.Status.Allocatable),
		}
	}
	return object, nil
}

// trimStatus keeps how far a pod is, and the IPs of one that was not told any.
func trimStatus(pod *corev1.Pod) corev1.PodStatus {
	status := corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions}
	if pod.Annotations[v1alpha1.AttachmentsAnnotation] == "" {
		status.PodIPs = pod.Status.PodIPs
	}
	return status
}

// podsOf keeps how many pods a node takes.
func podsOf(resources corev1.ResourceList) corev1.ResourceList {
	pods, ok := resources[corev1.ResourcePods]
	if !ok {
		return nil
	}
	return corev1.ResourceList{corev1.ResourcePods: pods}
}

// readyOf keeps whether a node is ready, and not since when.
func readyOf(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	for _, condition := range conditions {
		if condition.Type == corev1.NodeReady {
			return []corev1.NodeCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	return nil
}

// trimSpec keeps where the pod is, and how the kubelet probes it.
func trimSpec(spec *corev1.PodSpec) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName:       spec.NodeName,
		HostNetwork:    spec.HostNetwork,
		InitContainers: trimContainers(spec.InitContainers),
		Containers:     trimContainers(spec.Containers),
	}
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	trimmed := make([]corev1.Container, 0, len(containers))
	for _, c := range containers {
		trimmed = append(trimmed, corev1.Container{
			Name: c.Name, Ports: c.Ports, Lifecycle: c.Lifecycle, RestartPolicy: c.RestartPolicy,
			LivenessProbe: c.LivenessProbe, ReadinessProbe: c.ReadinessProbe, StartupProbe: c.StartupProbe,
		})
	}
	return trimmed
}
