// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import "testing"

var _ = kept(Report{
	Name: "tcp-before-service", Source: "kubernetes/kubernetes#101607", Kind: tcpPorts,
	Input: "A host outside tries a node port from one source port again and again, before the Service has an endpoint.",
	Want:  "The host is refused, and once there is an endpoint it is answered at the same source port.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, withNodePorts)
		q := question{from: l.on(l.host), targets: l.atNodes(service, "tcp"), port: 21004}
		q.await(t, refused)
		q.expect(t, 3, refused)
		l.lead(t, service, l.two)
		q.await(t, name(l.two))
		q.expect(t, 3, name(l.two))
	},
})
