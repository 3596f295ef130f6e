// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	"github.com/alioth-net/alioth/test/testtool/report"
)

var _ = kept(Report{
	Name: "udp-target-port", Source: "kubernetes/kubernetes#130542", Kind: udpFlows,
	Input: "The target port of a UDP Service changes. The endpoint stays, and the client goes on from one port.",
	Want:  "The new target port answers the same port of the client.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t)
		for _, from := range l.clients() {
			q := question{from: l.in(from), targets: at(service, "udp"), port: 21003}
			l.slice(t, service, "all", report.PortEcho, ready(l.one)...)
			q.await(t, name(l.one))
			l.slice(t, service, "all", secondPort, ready(l.one)...)
			q.await(t, secondName(l.one))
			q.expect(t, 3, secondName(l.one))
		}
	},
})
