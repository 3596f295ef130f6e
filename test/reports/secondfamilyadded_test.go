// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/test/e2e/scene"
)

var _ = kept(Report{
	Name: "second-family-added", Source: "ovn-kubernetes/ovn-kubernetes#2700", Kind: endpoints,
	Input: "A Service with node ports has IPv4 alone. Later it gets IPv6 too.",
	Want:  "Its new ClusterIP and its node port over IPv6 are answered, and IPv4 is as before.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, withNodePorts, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack) })
		l.lead(t, service, l.one)
		question{from: l.in(l.asker), targets: at(service, "tcp", "udp")}.await(t, name(l.one))
		l.change(t, service, func() { service.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack) })
		l.lead(t, service, l.one)
		if len(service.Spec.ClusterIPs) != 2 {
			t.Fatalf("the Service has %v", service.Spec.ClusterIPs)
		}
		for _, from := range l.clients() {
			question{from: l.in(from), targets: at(service, "tcp", "udp")}.await(t, name(l.one))
		}
		outer := question{from: l.on(l.host), targets: l.atNodes(service, "tcp")}
		for _, node := range l.Lab.Nodes() {
			outer.targets = append(outer.targets, scene.TargetPort("tcp", node.IPv6, nodePort(service, "tcp")))
		}
		outer.await(t, name(l.one))
	},
})
