// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// mailPort and the next one are ports of the second node. No other program listens there.
const mailPort = 18190

// namesakes are two pods of one name on the second node with one hostPort and different IPs;
// only the first is started.
func (l *lab) namesakes(t *testing.T, tenant string, protocol corev1.Protocol, port int32) (before, after *corev1.Pod, node cluster.Node) {
	t.Helper()
	_, second := l.Nodes()
	owner := l.Tenant(t, stage.Overlapping(tenant))
	opened := scene.WithHostPort(protocol, "", port, report.PortEcho)
	l.Grant(t, scene.HostAccess(owner.Name, []string{owner.Name}, "18190-18191"), owner.Namespace.Name, opened)
	before = owner.Pod("mail-0", scene.OnNode(second), opened, scene.WithNIC(`{"ip": "10.10.1.25"}`))
	after = owner.Pod("mail-0", scene.OnNode(second), opened, scene.WithNIC(`{"ip": "10.10.1.26"}`))
	after.Spec.Containers[0].Command = append(after.Spec.Containers[0].Command[:3:3], "successor")
	l.Run(t, before)
	return before, after, l.Lab.Nodes()[1]
}

var _ = kept(Report{
	Name: "host-port-of-a-namesake", Source: "cilium/cilium#48455", Kind: restarts,
	Input: "A pod with a hostPort is replaced by one of the same name, as in a StatefulSet. The second has another IP.",
	Want:  "The port leads to the second pod.",
	Run: func(t *testing.T, l *lab) {
		before, after, node := l.namesakes(t, "mail", corev1.ProtocolTCP, mailPort)
		target := []string{scene.TargetPort("tcp", node.IPv4, mailPort)}
		question{from: l.on(l.host), targets: target}.await(t, name(before))
		l.forceDelete(t, before)
		l.Run(t, after)
		question{from: l.on(l.host), targets: target}.await(t, "successor")
		question{from: l.on(l.host), targets: target}.expect(t, 5, "successor")
	},
})
