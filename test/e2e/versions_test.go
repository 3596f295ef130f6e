// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/test/release/stamp"
)

func TestEachProgramOfTheClusterTellsItsVersion(t *testing.T) {
	t.Parallel()
	e := start(t)
	text, status := e.ctl(t, "version", "-o", "json")
	var all struct {
		Client    version.Info
		Operators []struct{ Pod, Version, Problem string }
		Nodes     []struct{ Node, Daemon, Plugin, Problem string }
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil || status != 0 {
		t.Fatalf("exit status %d, %v: %s", status, err, text)
	}
	const want = "v" + version.Number
	if built := stamp.OfSources(t.Context(), "../.."); all.Client.Commit != built.Commit || all.Client.Version != want {
		t.Errorf("aliothctl is %+v, want version %s and commit %q", all.Client, want, built.Commit)
	}
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
			if condition.Type == corev1.NodeNetworkUnavailable && !slices.Contains(strings.Fields(condition.Message), want) {
				t.Errorf("the condition of node %s has no word %s: %s", node.Node, want, condition.Message)
			}
		}
	}
}
