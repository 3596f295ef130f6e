// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/alioth-net/alioth/test/testtool/report"
)

// manyPorts is the number of ports that one Service may have in an EndpointSlice.
const manyPorts = 100

var _ = kept(Report{
	Name: "service-with-many-ports", Source: "cilium/cilium#28726", Kind: fullTables,
	Input: "A Service has a hundred ports. All of them lead to one port of two backends.",
	Want:  "Each port is answered, and both backends answer.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, func(service *corev1.Service) {
			service.Spec.Ports = nil
			for i := range manyPorts {
				service.Spec.Ports = append(
					service.Spec.Ports,
					corev1.ServicePort{Name: fmt.Sprintf("port-%d", i), Port: int32(20000 + i), TargetPort: intstr.FromInt32(report.PortEcho)},
				)
			}
		})
		l.lead(t, service, l.one, l.two)
		for _, from := range l.clients() {
			var targets []string
			for i := range manyPorts {
				targets = append(targets, fmt.Sprintf("tcp://%s:%d", service.Spec.ClusterIPs[0], 20000+i))
			}
			question{from: l.in(from), targets: targets}.await(t, anybody)
			question{from: l.in(from), targets: targets[manyPorts-1:]}.awaitAll(t, name(l.one), name(l.two))
		}
	},
})
