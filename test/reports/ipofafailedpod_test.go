// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// endpointOf returns a slice that has a pod as a ready endpoint, whatever the pod is.
func endpointOf(service *corev1.Service, pod *corev1.Pod, ip string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: pod.Namespace, Name: service.Name + "-kept", Labels: map[string]string{discoveryv1.LabelServiceName: service.Name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("tcp"), Port: ptr.To[int32](report.PortEcho)}},
	}
}

var _ = kept(Report{
	Name: "ip-of-a-failed-pod", Source: "kubernetes/kubernetes#109414", Kind: addresses,
	Input: "A pod has failed and stays an endpoint of its Service. Its IP is given to a pod of another Service.",
	Want:  "The first Service refuses, and never leads to the other pod. The other Service leads there.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("failed"))
		fixed := scene.WithNIC(`{"ip": "10.10.1.80"}`)
		stale, other := scene.Service(tenant.Namespace.Name, "stale", "stale"), scene.Service(tenant.Namespace.Name, "other", "other")
		l.Make(t, stale, other)
		failed := tenant.Pod("failed", scene.OnNode(first), fixed, finishing("1"), scene.WithLabel("app", "stale"))
		holder := tenant.Pod("holder", scene.OnNode(second), fixed, scene.WithLabel("app", "other"))
		asker := tenant.Pod("asker", scene.OnNode(first))
		l.create(t, failed)
		l.awaitPhase(t, failed, corev1.PodFailed)
		l.Make(t, endpointOf(stale, failed, "10.10.1.80"))
		l.Run(t, holder, asker)
		question{from: l.in(asker), targets: at(other, "tcp")[:1]}.await(t, name(holder))
		question{from: l.in(asker), targets: at(stale, "tcp")[:1]}.await(t, refused)
		question{from: l.in(asker), targets: at(stale, "tcp")[:1]}.expect(t, 5, refused)
		l.ExpectAnswers(t, asker, stage.WantPod(holder))
	},
})
