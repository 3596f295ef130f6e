// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/test/testtool/report"
)

var _ = kept(Report{
	Name: "near-endpoint-ends", Source: "cilium/cilium#48348", Kind: ending,
	Input: "A Service prefers endpoints of the client's node. That endpoint is terminating, and has no hint any more.",
	Want:  "Known connections stay with it, and new ones go to the ready endpoint of another node.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, func(s *corev1.Service) {
			s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
		})
		first, second := l.Nodes()
		far, near := ready(l.one)[0], ready(l.two)[0]
		far.forNode, near.forNode = first, second
		l.slice(t, service, "all", report.PortEcho, far, near)
		q := question{from: l.in(l.machine), targets: at(service, "tcp")}
		q.await(t, name(l.two))
		q.expect(t, 5, name(l.two))
		end := l.converse(t, l.machine, q.targets...)
		l.slice(t, service, "all", report.PortEcho, far, leaving(l.two))
		q.await(t, name(l.one))
		q.expect(t, 5, name(l.one))
		expectUnbroken(t, end(), name(l.two))
	},
})
