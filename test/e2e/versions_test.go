// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// commitIn is the part of a program's description that names its commit.
var commitIn = regexp.MustCompile("commit [0-9a-f]{12}( with changes)?")

// commitOf returns the commit that a program in a pod of the system reports; "" for nothing. The
// pod may restart meanwhile.
func (e *env) commitOf(t *testing.T, of, program string) string {
	t.Helper()
	var text string
	err := scene.Until(within(t, patience), program+" of "+of+" to tell its version", func(ctx context.Context) (bool, string, error) {
		var err error
		text, err = e.Lab.Kubectl(ctx, "-n", cluster.SystemNamespace, "exec", of, "--", program, "--version")
		return err == nil, text, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return commitIn.FindString(text)
}

func TestVersions_EachProgram_Told(t *testing.T) {
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
	if all.Client.Version != want {
		t.Errorf("aliothctl is %+v, want version %s", all.Client, want)
	}
	if len(all.Operators) == 0 || len(all.Nodes) != len(e.Lab.Nodes()) {
		t.Errorf("it shows %d operators and %d nodes:\n%s", len(all.Operators), len(all.Nodes), text)
	}
	// The work tree may have another commit by now than at the time when the lab came up.
	commits := map[string][]string{commitIn.FindString(all.Client.String()): {"aliothctl"}}
	for _, operator := range all.Operators {
		of := e.commitOf(t, "pod/"+operator.Pod, "alioth-operator")
		commits[of] = append(commits[of], operator.Pod)
		if operator.Version != want || operator.Problem != "" {
			t.Errorf("operator %+v, want version %s", operator, want)
		}
	}
	for _, program := range []string{"alioth-cnid", "alioth"} {
		of := e.commitOf(t, "daemonset/alioth-cnid", program)
		commits[of] = append(commits[of], program)
	}
	if len(commits) != 1 || commits[""] != nil {
		t.Errorf("the programs are of several commits, or of an unknown one: %v", commits)
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
