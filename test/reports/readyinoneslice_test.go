// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	"github.com/alioth-net/alioth/test/testtool/report"
)

var _ = kept(Report{
	Name: "ready-in-one-slice", Source: "kubernetes/kubernetes#135334", Kind: endpoints,
	Input: "An address is ready in one EndpointSlice of a Service, and in another one it is not.",
	Want:  "The address answers, whichever slice says so.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t)
		for _, parts := range [][]string{{"a", "b"}, {"b", "a"}} {
			l.slice(t, service, parts[0], report.PortEcho, ready(l.two)...)
			for _, state := range []endpoint{{pod: l.two}, leaving(l.two)} {
				l.slice(t, service, parts[1], report.PortEcho, state)
				for _, from := range l.clients() {
					q := question{from: l.in(from), targets: at(service, "tcp", "udp")}
					q.await(t, name(l.two))
					q.expect(t, 3, name(l.two))
				}
			}
			l.slice(t, service, parts[0], report.PortEcho)
		}
	},
})
