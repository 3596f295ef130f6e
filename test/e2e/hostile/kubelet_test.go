// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// TestNoProgramOfANodeReachesATenantsPod has a program on a node connect to what the
// kubelet calls there, and to the pod's shadow in every way.
func TestNoProgramOfANodeReachesATenantsPod(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, _ := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("bait"))
	get := &corev1.HTTPGetAction{Path: "/bait", Port: intstr.FromInt32(report.PortHTTP)}
	pod := tenant.Pod("bait", scene.OnNode(first), scene.WithReadiness(corev1.ProbeHandler{HTTPGet: get}))
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: get}}
	e.Run(t, pod) // so the kubelet gets there

	dump, err := e.Dump(stage.Within(t, stage.Patience), first)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(dump.Attachments, func(rec journal.Record) bool { return rec.Pod.UID == string(pod.UID) })
	if at < 0 {
		t.Fatal("the node has no attachment of the pod")
	}
	shadows := []netip.Addr{dump.Attachments[at].Shadow4, dump.Attachments[at].Shadow6}
	targets := append(scene.Targets([]string{"tcp", "http", "udp"}, scene.IPs(pod)...), scene.Targets(scene.Protocols(), shadows...)...)
	results, err := scene.ParseLines[report.Probe](e.OnNode(t, first, append([]string{"testtool", "probe", "--timeout", "1s"}, targets...)...))
	if err != nil || len(results) != len(targets) {
		t.Fatalf("%d answers to %d questions: %v", len(results), len(targets), err)
	}
	for _, result := range results {
		if result.OK {
			t.Errorf("a program of the node reaches %s, and %s answers", result.Target, result.Name)
		}
	}
}
