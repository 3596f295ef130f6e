// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// tooManyFlows are more flows to Services than a pod may have.
const tooManyFlows = 2048 + 12

var _ = kept(Report{
	Name: "flows-of-one-pod", Source: "kubernetes/kubernetes#71261", Kind: fullTables,
	Input: "A virtual machine opens UDP flows to a Service until the node refuses it further flows.",
	Want:  "Its own new flows are dropped and counted. A pod beside it has new flows to the Service, and to cluster DNS.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("greedy"))
		service := scene.Service(tenant.Namespace.Name, "web", "web")
		l.Make(t, service)
		server := tenant.Pod("server", scene.OnNode(first), scene.WithLabel("app", "web"))
		greedy, beside := tenant.Pod("greedy", scene.OnNode(second), scene.AsMachine()), tenant.Pod("beside", scene.OnNode(second), scene.AsMachine())
		l.Run(t, server, greedy, beside)
		for _, from := range []*corev1.Pod{greedy, beside} {
			question{from: l.in(from), targets: at(service, "udp")}.await(t, name(server))
		}
		out, err := l.in(greedy)(patience(t), "socket", "hold", "--count", fmt.Sprint(tooManyFlows), "--timeout", "20ms", "--duration", "1ms", at(service, "udp")[0])
		if err != nil {
			t.Fatal(err)
		}
		held, err := scene.ParseLines[report.Held](out)
		served := 0
		for _, h := range held {
			if h.First.Name != "" {
				served++
			}
		}
		dropped := l.Drops(t, second, tenant.VPC.Name)["conn_limit"]
		if err != nil || served == 0 || served == len(held) || dropped == 0 {
			t.Fatalf("%d of %d flows were served, and %v packets dropped at the limit: %v", served, len(held), dropped, err)
		}
		t.Logf("%d of %d flows were served", served, len(held))
		question{from: l.in(beside), targets: at(service, "tcp", "udp")}.expect(t, 10, name(server))
		until(t, "cluster DNS to answer", func(ctx context.Context) (bool, string, error) {
			out, err := l.in(beside)(ctx, "resolve", "kubernetes.default.svc.cluster.local")
			return err == nil, out, err
		})
	},
})
