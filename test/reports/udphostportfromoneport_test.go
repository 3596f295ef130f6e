// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
)

var _ = kept(Report{
	Name: "udp-host-port-from-one-port", Source: "kubernetes/kubernetes#58336", Kind: restarts,
	Input: "A client outside sends datagrams to a hostPort from one source port all the time. The pod behind it is replaced.",
	Want:  "The datagrams go to the new pod: the node forgets the flow to the old one.",
	Run: func(t *testing.T, l *lab) {
		before, after, node := l.namesakes(t, "stats", corev1.ProtocolUDP, mailPort+1)
		q := question{from: l.on(l.host), targets: []string{scene.TargetPort("udp", node.IPv4, mailPort+1)}, port: 18192}
		q.await(t, name(before))
		l.forceDelete(t, before)
		l.Run(t, after)
		q.await(t, "successor")
		q.expect(t, 5, "successor")
	},
})
