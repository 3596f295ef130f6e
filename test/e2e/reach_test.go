// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

func wantPod(to *corev1.Pod) map[string]string { return stage.WantPod(to) }

// expectAnswers asks all targets from a pod; see stage.Env.ExpectAnswers.
func (e *env) expectAnswers(t *testing.T, from *corev1.Pod, want map[string]string) {
	t.Helper()
	e.ExpectAnswers(t, from, want)
}

// expectSilence asks all targets from a pod and requires that nothing answers,
// not even with a refusal.
func (e *env) expectSilence(t *testing.T, from *corev1.Pod, targets ...string) {
	t.Helper()
	results, err := e.AskWith(within(t, patience), from, silenceTime, marker(from), targets...)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := answered(results); len(wrong) > 0 {
		t.Errorf("from %s/%s %v on %s, %d of %d targets answered and must not:\n%s", from.Namespace, from.Name,
			scene.IPs(from), from.Spec.NodeName, len(wrong), len(targets), inOrder(wrong))
	}
}

// answered lists the targets that answered or refused. A refusal means that the packet
// got somewhere.
func answered(results []report.Probe) []string {
	var wrong []string
	for _, result := range results {
		switch {
		case result.OK:
			wrong = append(wrong, fmt.Sprintf("%s: answered by %q, which saw the asker as %q", result.Target, result.Name, result.Peer))
		case strings.Contains(result.Error, "refused"):
			wrong = append(wrong, fmt.Sprintf("%s: %s", result.Target, result.Error))
		}
	}
	return wrong
}

// marker returns the line that a pod sends to targets that it must not reach.
func marker(from *corev1.Pod) string { return "from-" + from.Namespace + "-" + from.Name }

// expectNeverSaw requires that a pod's server got no message with that text.
func (e *env) expectNeverSaw(t *testing.T, pod *corev1.Pod, text string) {
	t.Helper()
	seen, err := e.Seen(within(t, patience), pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range seen {
		if strings.Contains(message.Text, text) {
			t.Errorf("%s/%s got %q over %s from %s and must not", pod.Namespace, pod.Name, message.Text, message.Proto, message.Peer)
		}
	}
}

// saw reports whether a pod's server got a message with that text.
func (e *env) saw(t *testing.T, pod *corev1.Pod, text string) bool {
	t.Helper()
	seen, err := e.Seen(within(t, patience), pod)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(seen, func(message report.Seen) bool { return strings.Contains(message.Text, text) })
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
