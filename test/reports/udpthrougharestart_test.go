// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

var _ = kept(Report{
	Name: "udp-through-a-restart", Source: "kubernetes/kubernetes#122740", Kind: restarts,
	Input:  "A pod and a virtual machine ask a Service with two backends over one UDP socket each, while the daemons of all nodes are away and come back.",
	Want:   "Each socket keeps its backend, since neither Service nor endpoints have changed.",
	Outage: noDaemons,
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("keeps"))
		web := scene.WithLabel("app", "web")
		service := scene.Service(tenant.Namespace.Name, "web", "web")
		l.Make(t, service)
		asker, machine := tenant.Pod("asker", scene.OnNode(first)), tenant.Pod("machine", scene.OnNode(second), scene.AsMachine())
		l.Run(t, asker, machine, tenant.Pod("one", scene.OnNode(first), web), tenant.Pod("two", scene.OnNode(second), web))
		var ends []func() []report.Conversation
		for _, from := range []*corev1.Pod{asker, machine} {
			question{from: l.in(from), targets: at(service, "udp")}.await(t, anybody)
			ends = append(ends, l.converse(t, from, at(service, "udp")...))
		}
		noDaemons.during(t, func() {})
		for _, end := range ends {
			for _, c := range end() {
				if len(c.Turns) != 1 || c.Broken > 0 || c.Sent-c.Answered > 1 {
					t.Errorf("%+v", c)
				}
			}
		}
	},
})
