// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// wantPod returns what each protocol must answer at each address of a pod:
// the target, and the name under which that pod's server answers.
func wantPod(to *corev1.Pod) map[string]string {
	want := map[string]string{}
	for _, target := range scene.Targets(scene.Protocols(), scene.IPs(to)...) {
		want[target] = scene.ServerName(to.Namespace, to.Name)
	}
	return want
}

// expectAnswers asks all targets from a pod and requires that each is answered
// by the server of the wanted name, which saw the pod under its own address.
func (e *env) expectAnswers(t *testing.T, from *corev1.Pod, want map[string]string) {
	t.Helper()
	targets := sortedKeys(want)
	results, err := e.Ask(within(t, patience), from, answerTime, targets...)
	if err != nil {
		t.Fatal(err)
	}
	var wrong []string
	for i, result := range results {
		if problem := checkAnswer(result, want[targets[i]], scene.IPs(from)); problem != "" {
			wrong = append(wrong, problem)
		}
	}
	if len(wrong) > 0 {
		t.Errorf("from %s/%s %v on %s, %d of %d targets are wrong:\n%s", from.Namespace, from.Name,
			scene.IPs(from), from.Spec.NodeName, len(wrong), len(targets), inOrder(wrong))
	}
}

func checkAnswer(result report.Probe, want string, own []netip.Addr) string {
	if !result.OK {
		return fmt.Sprintf("%s: no answer, want one of %s: %s", result.Target, want, result.Error)
	}
	if strings.HasPrefix(result.Target, "icmp") || want == "" {
		return ""
	}
	if result.Name != want {
		return fmt.Sprintf("%s: answered by %s, want %s", result.Target, result.Name, want)
	}
	if peer, err := netip.ParseAddr(result.Peer); err != nil || !slices.Contains(own, peer) {
		return fmt.Sprintf("%s: %s saw the asker as %s, want one of %v", result.Target, want, result.Peer, own)
	}
	return ""
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

// marker is the line that a pod sends to targets that it must not reach.
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
