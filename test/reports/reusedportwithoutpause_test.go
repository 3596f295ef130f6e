// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import "testing"

var _ = kept(Report{
	Name: "reused-port-without-pause", Source: "projectcalico/calico#4661", Kind: tcpPorts,
	Input: "A client opens one connection after the other from one source port, without a pause.",
	Want:  "Each is answered, from pods and from outside.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, withNodePorts)
		l.lead(t, service, l.one, l.two)
		for _, q := range []question{
			{from: l.in(l.asker), targets: at(service, "tcp", "udp"), port: 21007},
			{from: l.in(l.machine), targets: at(service, "tcp", "udp"), port: 21007},
			{from: l.on(l.host), targets: l.atNodes(service, "tcp"), port: 21007},
		} {
			q.await(t, anybody)
			q.expect(t, 20, anybody)
		}
	},
})
