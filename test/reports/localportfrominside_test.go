// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	"github.com/alioth-net/alioth/test/e2e/scene"
)

var _ = kept(Report{
	Name: "local-port-from-inside", Source: "kubernetes/kubernetes#66354", Kind: outside,
	Input: "A Service has externalTrafficPolicy Local. A pod asks its port at a node without an endpoint, and so does that node.",
	Want:  "Both are answered. A host outside is not.",
	Run: func(t *testing.T, l *lab) {
		namespace := l.PlainNamespace(t)
		first, second := l.Nodes()
		server, client := scene.Pod(namespace, "server", scene.OnNode(second)), scene.Pod(namespace, "client", scene.OnNode(first))
		service := l.serviceIn(t, namespace, withNodePorts, localOutside)
		l.Run(t, server, client)
		l.lead(t, service, server)
		for _, protocol := range []string{"tcp", "udp"} {
			targets := l.atNodes(service, protocol)
			question{from: l.on(l.host), targets: targets[1:]}.await(t, name(server))
			for _, q := range []question{
				{from: l.in(client), targets: targets}, {from: l.onNode(first), targets: targets[:1]}, {from: l.onNode(second), targets: targets[1:]},
			} {
				q.await(t, name(server))
				q.expect(t, 3, name(server))
			}
			question{from: l.on(l.host), targets: targets[:1]}.expectNothing(t)
		}
	},
})
