// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	"github.com/alioth-net/alioth/test/testtool/report"
)

var _ = kept(Report{
	Name: "same-address-in-two-slices", Source: "kubernetes/kubernetes#114144", Kind: endpoints,
	Input: "Two EndpointSlices of a Service have an address in common. Then one of them ends.",
	Want:  "All addresses answer, and later the addresses of the slice that is left.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t)
		l.slice(t, service, "a", report.PortEcho, ready(l.one)...)
		l.slice(t, service, "b", report.PortEcho, ready(l.one, l.two)...)
		for _, from := range l.clients() {
			question{from: l.in(from), targets: at(service, "tcp", "udp")}.awaitAll(t, name(l.one), name(l.two))
		}
		l.slice(t, service, "b", report.PortEcho)
		for _, from := range l.clients() {
			q := question{from: l.in(from), targets: at(service, "tcp", "udp")}
			q.await(t, name(l.one))
			q.expect(t, 5, name(l.one))
		}
	},
})
