// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import "testing"

var _ = kept(Report{
	Name: "udp-after-empty", Source: "kubernetes/kubernetes#48370", Kind: udpFlows,
	Input: "A client asks a UDP Service from one port again and again. All endpoints go, then another one comes.",
	Want:  "The client is refused meanwhile, and then the new endpoint answers the same port.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t)
		for _, from := range l.clients() {
			q := question{from: l.in(from), targets: at(service, "udp"), port: 21001}
			l.lead(t, service, l.one)
			q.await(t, name(l.one))
			l.lead(t, service)
			q.await(t, refused)
			l.lead(t, service, l.two)
			q.await(t, name(l.two))
			q.expect(t, 3, name(l.two))
		}
	},
})
