// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

var _ = kept(Report{
	Name: "affinity-of-one-service", Source: "ovn-kubernetes/ovn-kubernetes#1447", Kind: affinity,
	Input: "Two Services have the same endpoints, and one of them has ClientIP affinity.",
	Want:  "A client keeps its endpoint at that one, and reaches all endpoints at the other.",
	Run: func(t *testing.T, l *lab) {
		sticky := l.service(t, func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
		free := l.service(t)
		l.lead(t, sticky, l.one, l.two)
		l.lead(t, free, l.one, l.two)
		for _, from := range l.clients() {
			for _, target := range at(sticky, "tcp", "udp") {
				q := question{from: l.in(from), targets: []string{target}}
				q.await(t, anybody)
				results, err := q.ask(patience(t), 1, attempt)
				if err != nil {
					t.Fatal(err)
				}
				q.expect(t, 10, results[0].Name)
			}
			question{from: l.in(from), targets: at(free, "tcp", "udp")}.awaitAll(t, name(l.one), name(l.two))
		}
	},
})
