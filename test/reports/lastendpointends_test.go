// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	"github.com/alioth-net/alioth/test/testtool/report"
)

var _ = kept(Report{
	Name: "last-endpoint-ends", Source: "cilium/cilium#23744", Kind: ending,
	Input: "The only endpoint of a node, with externalTrafficPolicy Local, is terminating and still serves.",
	Want:  "A connection from outside goes on, and new ones are answered too.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, withNodePorts, localOutside)
		q := question{from: l.on(l.host), targets: l.atNodes(service, "tcp")[1:]} // the node of the endpoint
		l.lead(t, service, l.two)
		q.await(t, name(l.two))
		end := l.converseOutside(t, q.targets...)
		l.slice(t, service, "all", report.PortEcho, leaving(l.two))
		inside := question{from: l.in(l.asker), targets: at(service, "tcp")}
		inside.await(t, name(l.two))
		q.expect(t, 5, name(l.two))
		expectUnbroken(t, end(), name(l.two))
	},
})
