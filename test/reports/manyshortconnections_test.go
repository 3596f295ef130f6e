// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/testtool/report"
)

var _ = kept(Report{
	Name: "many-short-connections", Source: "cilium/cilium#35010", Kind: fullTables,
	Input: "Clients open short connections to a Service one after the other, from ports that they use again.",
	Want:  "Each connection is answered: none fails for want of an entry.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, func(service *corev1.Service) {
			service.Spec.Ports = []corev1.ServicePort{{Name: "connect", Port: report.PortRoundTrip, TargetPort: intstr.FromInt32(report.PortRoundTrip)}}
		})
		l.lead(t, service, l.one, l.two)
		for _, from := range l.clients() {
			vip := netip.AddrPortFrom(netip.MustParseAddr(service.Spec.ClusterIP), report.PortRoundTrip).String()
			question{from: l.in(from), targets: []string{"connect://" + vip}}.await(t, anybody)
			out, err := l.in(from)(patience(t), "connect-latency", vip, "--duration", "1500ms", "--first-port", "23000", "--ports", "50")
			if err != nil {
				t.Fatalf("%s: %v", from.Name, err)
			}
			results, err := scene.ParseLines[report.Latency](out)
			if err != nil || len(results) != 1 || results[0].Transactions < 100 {
				t.Errorf("%s: %+v, %v", from.Name, results, err)
			}
		}
	},
})
