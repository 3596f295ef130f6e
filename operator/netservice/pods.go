// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netservice

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/store"
)

// podsOf returns a pod for each member, with the member's address as its only one. byDomain also
// has domains without members. all has the pods for the families of the Service in one list.
func podsOf(
	service *corev1.Service,
	members map[string][]member,
) (byDomain map[string][]*corev1.Pod, all []*corev1.Pod) {
	byDomain = map[string][]*corev1.Pod{}
	for _, domain := range slices.Sorted(maps.Keys(members)) {
		byDomain[domain] = nil
		for _, one := range members[domain] {
			pod := podAt(one.pod, one.ip)
			byDomain[domain] = append(byDomain[domain], pod)
			if hasFamily(service, ipfamily.Of(one.ip)) {
				all = append(all, pod)
			}
		}
	}
	return byDomain, all
}

// hasFamily reports whether a Service has endpoints of a family.
func hasFamily(service *corev1.Service, family ipfamily.Family) bool {
	list := service.Spec.IPFamilies
	return len(list) == 0 || slices.Contains(list, corev1.IPFamily(family.String())) // none with type ExternalName
}

// podAt makes a pod out of a row, with one address. It has the fields that the library of
// Kubernetes reads.
func podAt(row *store.Pod, ip netip.Addr) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: row.Namespace, Name: row.Name, UID: types.UID(row.UID)},
		Spec:       corev1.PodSpec{NodeName: row.Node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip.String(), PodIPs: []corev1.PodIP{{IP: ip.String()}}},
	}
	if row.Deleting {
		pod.DeletionTimestamp = &metav1.Time{}
	}
	if row.Terminal {
		pod.Status.Phase = corev1.PodFailed
	}
	if endpoint := row.Endpoint; endpoint != nil {
		describe(pod, endpoint)
	}
	return pod
}

// describe adds the fields to a pod that its endpoints need.
func describe(pod *corev1.Pod, endpoint *store.PodEndpoint) {
	pod.Spec.Hostname, pod.Spec.Subdomain = endpoint.Hostname, endpoint.Subdomain
	container := corev1.Container{}
	for _, port := range endpoint.Ports {
		container.Ports = append(container.Ports, corev1.ContainerPort{
			Name: port.Name, Protocol: corev1.Protocol(port.Protocol), ContainerPort: port.Port,
		})
	}
	pod.Spec.Containers = []corev1.Container{container}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}
	if endpoint.Ready {
		ready.Status = corev1.ConditionTrue
	}
	pod.Status.Conditions = []corev1.PodCondition{ready}
}
