// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import "testing"

var _ = kept(Report{
	Name: "equal-ports", Source: "kubernetes/kubernetes#18933", Kind: tcpPorts,
	Input: "A host outside asks a node port from the source port of the same number, as telephony does.",
	Want:  "The host gets the answer of the endpoint, over TCP and UDP, by each node.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, withNodePorts)
		l.lead(t, service, l.one)
		for _, protocol := range []string{"udp", "tcp"} {
			q := question{from: l.on(l.host), targets: l.atNodes(service, protocol), port: nodePort(service, protocol)}
			q.await(t, name(l.one))
			q.expect(t, 3, name(l.one))
		}
	},
})
