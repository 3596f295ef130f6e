// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/waits"
)

// AnswerTime is how long a probe that must be answered is repeated.
var AnswerTime = waits.Limit(10 * time.Second)

// WantPod returns the answer that each protocol must give at each address of a pod: the target, and
// the name of that pod's server.
func WantPod(to *corev1.Pod) map[string]string {
	want := map[string]string{}
	for _, target := range scene.Targets(scene.Protocols(), scene.IPs(to)...) {
		want[target] = scene.ServerName(to.Namespace, to.Name)
	}
	return want
}

// ExpectAnswers asks all targets from a pod and requires that each is answered
// by the server of the wanted name, which saw the pod under its own address.
func (e *Env) ExpectAnswers(t *testing.T, from *corev1.Pod, want map[string]string) {
	t.Helper()
	targets := slices.Sorted(maps.Keys(want))
	results, err := e.Ask(Within(t, Patience), from, AnswerTime, targets...)
	if err != nil {
		t.Fatal(err)
	}
	var wrong []string
	for i, result := range results {
		if problem := CheckAnswer(result, want[targets[i]], scene.IPs(from)); problem != "" {
			wrong = append(wrong, problem)
		}
	}
	if len(wrong) > 0 {
		t.Errorf("from %s/%s %v on %s, %d of %d targets are wrong:\n%s", from.Namespace, from.Name,
			scene.IPs(from), from.Spec.NodeName, len(wrong), len(targets), strings.Join(wrong, "\n"))
	}
}

// CheckAnswer describes the fault of the answer to a probe, or returns "": the server of the wanted
// name has to answer, and to see the asker under its own address.
func CheckAnswer(result report.Probe, want string, own []netip.Addr) string {
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
