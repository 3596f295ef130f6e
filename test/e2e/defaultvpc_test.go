// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// defaultVPC is the name that the chart gives it.
const defaultVPC = "default"

func (e *env) plainNamespace(t *testing.T) string {
	t.Helper()
	return e.PlainNamespace(t)
}

func TestDefaultVPC_NamespaceWithoutLabel_PodsConnected(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	namespace := e.plainNamespace(t)
	pods := []*corev1.Pod{
		scene.Pod(namespace, "one", scene.OnNode(first), scene.WithReadiness(httpProbe("/healthz"))),
		scene.Pod(namespace, "two", scene.OnNode(first)),
		scene.Pod(namespace, "three", scene.OnNode(second), scene.WithReadiness(httpProbe("/healthz"))),
	}
	e.Run(t, pods...)

	t.Run("they get addresses of its range", func(t *testing.T) {
		vpc := &v1alpha1.VPC{}
		if err := e.Client.Get(within(t, patience), types.NamespacedName{Name: defaultVPC}, vpc); err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods {
			if len(scene.IPs(pod)) != 2 {
				t.Errorf("%s has %v, want one address per family", pod.Name, scene.IPs(pod))
			}
			for _, ip := range scene.IPs(pod) {
				if !slices.ContainsFunc(vpc.Spec.CIDRs, func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(ip) }) {
					t.Errorf("%s has %s, which is in none of %v", pod.Name, ip, vpc.Spec.CIDRs)
				}
			}
		}
	})
	t.Run("they reach each other on one node and across nodes", func(t *testing.T) {
		for _, from := range pods {
			e.expectAnswers(t, from, wantOthers(from, pods))
		}
	})
	t.Run("every node reaches them under their addresses", func(t *testing.T) {
		for _, node := range e.Lab.Nodes() {
			for _, pod := range pods {
				e.nodeReaches(t, node.Name, scene.Targets(scene.Protocols(), scene.IPs(pod)...)...)
			}
		}
	})
	t.Run("they reach every node", func(t *testing.T) {
		for _, pod := range []*corev1.Pod{pods[0], pods[2]} {
			var targets []string
			for _, node := range e.Lab.Nodes() {
				targets = append(targets, scene.Target("icmp", node.IPv4), scene.Target("icmp", node.IPv6))
			}
			results, err := e.Ask(within(t, patience), pod, answerTime, targets...)
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range results {
				if !result.OK {
					t.Errorf("from %s: %s: %s", pod.Name, result.Target, result.Error)
				}
			}
		}
	})
}

// nodeReaches requires that each target answers to a node.
func (e *env) nodeReaches(t *testing.T, node string, targets ...string) {
	t.Helper()
	out := e.OnNode(t, node, append([]string{"testtool", "probe", "--timeout", answerTime.String()}, targets...)...)
	results, err := scene.ParseLines[report.Probe](out)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if !result.OK {
			t.Errorf("from node %s: %s: %s", node, result.Target, result.Error)
		}
	}
}

func TestLogsAndExec_TenantVPC_Work(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("blue"))
	pod := tenant.Pod("server")
	e.Run(t, pod)
	if out := strings.TrimSpace(e.InPod(t, pod, "hostname")); out != "server" {
		t.Errorf("hostname in the pod is %q", out)
	}
	logs, err := e.Lab.Client().CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(within(t, patience))
	if err != nil || !strings.Contains(string(logs), "listening") {
		t.Errorf("logs are %q, %v; want the server's start-up lines", logs, err)
	}
}
