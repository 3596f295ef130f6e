// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/testtool/report"
)

func pod(namespace, name, ip string) *corev1.Pod {
	pod := scene.Pod(namespace, name)
	pod.Status.PodIPs = []corev1.PodIP{{IP: ip}}
	return pod
}

func answer(target, name string) report.Probe {
	return report.Probe{Target: target, OK: name != "", Name: name, Error: "timeout"}
}

func TestMatrixCell_Answers_Judged(t *testing.T) {
	a1, a2, b2 := pod("a", "one", "10.0.0.1"), pod("a", "two", "10.0.0.2"), pod("b", "two", "10.0.0.2")
	tests := map[string]struct {
		pair     pair
		answers  []report.Probe
		want     cell
		problems int
	}{
		"the pod itself is not asked":             {pair{a1, a1}, nil, itself, 0},
		"all answers of the tenant's pod":         {pair{a1, a2}, []report.Probe{answer("icmp://x", "-"), answer("tcp://x", "a/two")}, reached, 0},
		"one answer missing":                      {pair{a1, a2}, []report.Probe{answer("icmp://x", "-"), answer("tcp://x", "")}, partly, 1},
		"an answer of somebody else":              {pair{a1, a2}, []report.Probe{answer("tcp://x", "b/two")}, apart, 1},
		"no answer across tenants":                {pair{a1, b2}, []report.Probe{answer("tcp://x", "")}, apart, 0},
		"the own tenant's pod answers in place":   {pair{a1, b2}, []report.Probe{answer("icmp://x", "-"), answer("tcp://x", "a/two")}, apart, 0},
		"an answer across tenants is a violation": {pair{a1, b2}, []report.Probe{answer("tcp://x", "b/two"), answer("udp://x", "")}, partly, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := matrix{cells: map[pair]cell{}}
			m.judge(tt.pair, tt.answers)
			if m.cells[tt.pair] != tt.want || len(m.problems) != tt.problems {
				t.Errorf("cell is %d with problems %q, want %d with %d", m.cells[tt.pair], m.problems, tt.want, tt.problems)
			}
		})
	}
}

func TestMatrix_MessageAcrossTenants_Problem(t *testing.T) {
	a, b := pod("a", "one", "10.0.0.1"), pod("b", "one", "10.0.0.1")
	m := matrix{pods: []*corev1.Pod{a, b}, cells: map[pair]cell{}}
	m.judgeSeen(b, []report.Seen{{Text: line("1", b)}, {Text: line("0", a)}}, "1")
	if len(m.problems) != 0 {
		t.Errorf("problems %q from messages of the own tenant and of an earlier run", m.problems)
	}
	m.judgeSeen(b, []report.Seen{{Text: line("1", a)}}, "1")
	if len(m.problems) != 1 || m.cells[pair{a, b}] != partly {
		t.Errorf("a message across tenants is no problem: %v", m)
	}
}

func TestMatrix_NoTerminal_PlainText(t *testing.T) {
	a1, a2, b := pod("customer-a", "one", "10.0.0.1"), pod("customer-a", "two", "10.0.0.2"), pod("customer-b", "one", "10.0.0.1")
	m := matrix{pods: []*corev1.Pod{a1, a2, b}, cells: map[pair]cell{}}
	for _, from := range m.pods {
		for _, to := range m.pods {
			m.cells[pair{from, to}] = pair{from, to}.wanted()
		}
	}
	var out bytes.Buffer
	newPrinter(&out).matrix(m)
	want := `
                      customer-a      customer-b
                      one    two      one
  customer-a/one      .      ok       --
  customer-a/two      ok     .        --
  customer-b/one      --     --       .
`
	var trimmed []string
	for line := range strings.Lines(out.String()) {
		trimmed = append(trimmed, strings.TrimRight(line, " \n"))
	}
	if got := strings.Join(trimmed, "\n"); !strings.Contains(got, want) || !strings.Contains(got, "Correct: 2 pairs") {
		t.Errorf("printed\n%s\nwant it to contain\n%s", got, want)
	}
}

func TestHints_Commands_Named(t *testing.T) {
	var out bytes.Buffer
	newPrinter(&out).hints("alioth3-node1")
	for _, command := range []string{"status --node alioth3-node1\n", "verify\n"} {
		if want := "\n  .cluster/bin/aliothctl " + command; !strings.Contains(out.String(), want) {
			t.Errorf("the hints lack %q:\n%s", want, out.String())
		}
	}
	if len(tries()) != 3 {
		t.Errorf("%d things to try, want 3", len(tries()))
	}
	for _, try := range tries() {
		if !strings.Contains(out.String(), "\n   "+try.command+"\n") {
			t.Errorf("the hints lack %q:\n%s", try.command, out.String())
		}
	}
}

func TestDemoPods_NumberedLab_OnItsNodes(t *testing.T) {
	pods, err := podsOf(podsIn("alioth3"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if node := pod.Spec.NodeSelector[corev1.LabelHostname]; node != "alioth3-node1" && node != "alioth3-node2" {
			t.Errorf("pod %s/%s is for node %q", pod.Namespace, pod.Name, node)
		}
	}
}

func TestDemoManifests_Pods_NineWithProbes(t *testing.T) {
	pods, err := podsOf(podsManifest)
	if err != nil || len(pods) != 9 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	for _, pod := range pods {
		if pod.Spec.Containers[0].ReadinessProbe == nil || len(pod.Spec.NodeSelector) == 0 {
			t.Errorf("pod %s/%s has no probe or no node", pod.Namespace, pod.Name)
		}
	}
}
