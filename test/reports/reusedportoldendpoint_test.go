// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	"github.com/alioth-net/alioth/test/testtool/report"
)

var _ = kept(Report{
	Name: "reused-port-old-endpoint", Source: "cilium/cilium#20382", Kind: ending,
	Input: "A client's connection has ended. Its endpoint terminates, and the client opens another one from the same source port.",
	Want:  "The connection goes to a ready endpoint.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, withNodePorts)
		for _, q := range []question{
			{from: l.in(l.machine), targets: at(service, "tcp"), port: 21006},
			{from: l.in(l.asker), targets: at(service, "tcp"), port: 21006},
			{from: l.on(l.host), targets: l.atNodes(service, "tcp"), port: 21006},
		} {
			l.lead(t, service, l.one)
			q.await(t, name(l.one))
			fresh := q
			fresh.port = 0
			l.slice(t, service, "all", report.PortEcho, append(ready(l.two), leaving(l.one))...)
			fresh.await(t, name(l.two))
			q.expect(t, 3, name(l.two))
		}
	},
})
