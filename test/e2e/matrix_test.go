// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// places returns the pods of a tenant in the matrix: on either node and in either
// subnet, with addresses that the other tenant's pods have as well, on other
// nodes.
func places(first, second string) map[string]struct{ node, ip string } {
	return map[string]struct{ node, ip string }{
		"one":   {first, "10.10.1.11,fd10:10:0:1::11"},
		"two":   {first, "10.10.1.12,fd10:10:0:1::12"},
		"three": {second, "10.10.1.13,fd10:10:0:1::13"},
		"four":  {first, "10.10.2.14,fd10:10:0:2::14"},
		"five":  {second, "10.10.2.15,fd10:10:0:2::15"},
	}
}

func tenantPods(tenant *scene.Tenant, first, second string) []*corev1.Pod {
	var pods []*corev1.Pod
	for name, place := range places(first, second) {
		pods = append(pods, tenant.Pod(name, scene.OnNode(place.node), scene.WithNIC(`{"ip": "`+place.ip+`"}`)))
	}
	return pods
}

func TestTenants_SameRange_Isolated(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	blue, red := e.Tenant(t, stage.Overlapping("blue")), e.Tenant(t, stage.Overlapping("red"))
	// The red pods sit the other way round: an address of a blue pod on one node belongs to a red
	// pod on the other node.
	bluePods, redPods := tenantPods(blue, first, second), tenantPods(red, second, first)
	bluePods = append(bluePods, blue.Pod("only-blue", scene.OnNode(first), scene.WithNIC(`{"ip": "10.10.1.31,fd10:10:0:1::31"}`)))
	redPods = append(redPods, red.Pod("only-red", scene.OnNode(first), scene.WithNIC(`{"ip": "10.10.1.32,fd10:10:0:1::32"}`)))
	e.Run(t, append(append([]*corev1.Pod{}, bluePods...), redPods...)...)

	t.Run("pods reach each other within a tenant and nobody else under the same address", func(t *testing.T) {
		for _, pods := range [][]*corev1.Pod{bluePods, redPods} {
			for _, from := range pods {
				e.expectAnswers(t, from, wantOthers(from, pods))
			}
		}
	})
	t.Run("an address that only the other tenant has reaches nothing", func(t *testing.T) {
		for _, pair := range []struct{ from, to *corev1.Pod }{
			{bluePods[0], redPods[len(redPods)-1]}, {redPods[0], bluePods[len(bluePods)-1]},
		} {
			e.expectSilence(t, pair.from, scene.Targets(scene.Protocols(), scene.IPs(pair.to)...)...)
			e.expectNeverSaw(t, pair.to, marker(pair.from))
		}
	})
	t.Run("each server saw messages of its own tenant only", func(t *testing.T) {
		for _, from := range []*corev1.Pod{bluePods[1], redPods[1]} {
			if _, err := e.AskWith(within(t, patience), from, answerTime, marker(from), tcpTargets(append(bluePods, redPods...))...); err != nil {
				t.Fatal(err)
			}
		}
		for _, pod := range redPods {
			e.expectNeverSaw(t, pod, marker(bluePods[1]))
		}
		for _, pod := range bluePods {
			e.expectNeverSaw(t, pod, marker(redPods[1]))
		}
	})
}

// wantOthers has the answers that a pod must get from all pods of its tenant but itself.
func wantOthers(from *corev1.Pod, pods []*corev1.Pod) map[string]string {
	want := map[string]string{}
	for _, to := range pods {
		if to != from {
			maps.Copy(want, wantPod(to))
		}
	}
	return want
}

func tcpTargets(pods []*corev1.Pod) []string {
	var targets []string
	for _, pod := range pods {
		targets = append(targets, scene.Targets([]string{"tcp"}, scene.IPs(pod)...)...)
	}
	return targets
}
