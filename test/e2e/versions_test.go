// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/version"
)

func TestEachProgramOfTheClusterTellsItsVersion(t *testing.T) {
	t.Parallel()
	e := start(t)
	text, status := e.ctl(t, "version", "-o", "json")
	var all struct {
		Operators []struct{ Pod, Version, Problem string }
		Nodes     []struct{ Node, Daemon, Plugin, Problem string }
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil || status != 0 {
		t.Fatalf("exit status %d, %v: %s", status, err, text)
	}
	const want = "v" + version.Number
	if len(all.Operators) == 0 || len(all.Nodes) != len(e.Lab.Nodes()) {
		t.Errorf("it shows %d operators and %d nodes:\n%s", len(all.Operators), len(all.Nodes), text)
	}
	for _, operator := range all.Operators {
		if operator.Version != want || operator.Problem != "" {
			t.Errorf("operator %+v, want version %s", operator, want)
		}
	}
	for _, node := range all.Nodes {
		if node.Daemon != want || node.Plugin != want || node.Problem != "" {
			t.Errorf("node %+v, want version %s", node, want)
		}
		var object corev1.Node
		if err := e.Client.Get(within(t, patience), client.ObjectKey{Name: node.Node}, &object); err != nil {
			t.Fatal(err)
		}
		for _, condition := range object.Status.Conditions {
			if condition.Type == corev1.NodeNetworkUnavailable && !strings.Contains(condition.Message, want) {
				t.Errorf("the condition of node %s lacks the version: %s", node.Node, condition.Message)
			}
		}
	}
}
