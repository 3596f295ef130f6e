// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "node-port-through-a-restart", Source: "cilium/cilium#29667", Kind: restarts,
	Input:  "A client outside has a connection to a node port. The node has no backend, and its daemon is away for a while.",
	Want:   "The connection goes on: what the node remembers of it outlives the daemon.",
	Outage: noDaemons,
	Run: func(t *testing.T, l *lab) {
		first, _ := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("through"))
		service := scene.Service(tenant.Namespace.Name, "web", "web")
		withNodePorts(service)
		l.Make(t, service)
		server := tenant.Pod("server", scene.OnNode(first), scene.WithLabel("app", "web"))
		l.Run(t, server)
		host := l.OutsideHost(t, "talks", 221)
		way := scene.TargetPort("tcp", l.Lab.Nodes()[1].IPv4, nodePort(service, "tcp"))
		question{from: l.on(host), targets: []string{way}}.await(t, name(server))
		end := l.converseFrom(t, host, way)
		noDaemons.during(t, func() {})
		expectUnbroken(t, end(), name(server))
	},
})
