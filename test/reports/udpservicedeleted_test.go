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
	Name: "udp-service-deleted", Source: "kubernetes/kubernetes#141371", Kind: udpFlows,
	Input: "Pods send datagrams to a Service, one from a connected socket and one past its sockets. The Service is deleted.",
	Want:  "No further datagram reaches the old endpoint, and the connected socket gets an error.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t)
		l.lead(t, service, l.one)
		fresh := question{from: l.in(l.asker), targets: at(service, "udp")}
		fresh.await(t, name(l.one))
		l.sendUntilSeen(t, service, stage.Unique("before"), l.one)
		var held report.Held
		socket := l.Begin(stage.Within(t, 3*stage.Patience), l.asker, &held, "socket", "hold", fresh.targets[0])
		if err := l.AwaitBegun(patience(t), socket); err != nil {
			t.Fatal(err)
		}
		if err := l.Delete(patience(t), service.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		fresh.await(t, nothing)
		deleted := stage.Unique("deleted")
		l.sendOneWay(t, service, deleted)
		if err := l.End(patience(t), socket); err != nil {
			t.Fatal(err)
		}
		if again := held.Again; held.First.Name != name(l.one) || held.Ended == "" && (again == nil || again.Error == "") {
			t.Errorf("the connected socket: %+v, again %+v, want an answer and then an error", held, again)
		}
		l.expectOrdinary(t, l.asker, l.one) // comes after all that
		l.expectUnseen(t, l.one, deleted)
	},
})

// expectOrdinary asks a pod's server without a Service.
func (l *lab) expectOrdinary(t *testing.T, from, to *corev1.Pod) {
	t.Helper()
	question{from: l.in(from), targets: scene.Targets([]string{"udp"}, scene.IPs(to)...)}.expect(t, 1, name(to))
}
