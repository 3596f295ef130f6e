// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	"github.com/alioth-net/alioth/test/testtool/report"
)

var _ = kept(Report{
	Name: "one-address-two-ports", Source: "kubernetes/kubernetes#101935", Kind: endpoints,
	Input: "Two EndpointSlices of a Service have one address with different ports.",
	Want:  "Both ports answer.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t)
		l.slice(t, service, "a", report.PortEcho, ready(l.one)...)
		l.slice(t, service, "b", secondPort, ready(l.one)...)
		for _, from := range l.clients() {
			question{from: l.in(from), targets: at(service, "tcp", "udp")}.awaitAll(t, name(l.one), secondName(l.one))
		}
	},
})
