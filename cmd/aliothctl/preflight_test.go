// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cnid/inspect/preflight"
	"github.com/alioth-net/alioth/cnid/inspect/preflight/survey"
)

func TestPreflight_BlockingFinding_OnlyExitStatusTells(t *testing.T) {
	root, values := t.TempDir(), filepath.Join(t.TempDir(), "values.yaml")
	if err := os.MkdirAll(filepath.Join(root, "etc/cni/net.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/cni/net.d/00-multus.conf"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "preflight", "--node", "--root", root)
	if !errors.Is(err, errBlocked) || exitStatus(err) != 1 || !strings.Contains(out, "00-multus.conf sorts before") || strings.Contains(out, "Error:") ||
		!strings.HasSuffix(out, "resolve the blocking findings before the installation\n") {
		t.Errorf("%v:\n%s", err, out)
	}
	// The chart uses a different folder now. The folder in the temporary root has no bpf file system.
	if err := os.WriteFile(values, []byte("daemon: {cniConfDir: /other}"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = run(t, "preflight", "--node", "--root", root, "--values", values, "-o", "json")
	var findings []preflight.Finding
	if failed := json.Unmarshal([]byte(out), &findings); failed != nil || !errors.Is(err, errBlocked) || strings.Contains(out, "multus") {
		t.Fatalf("%v, %v:\n%s", failed, err, out)
	}
	if findings[0].Check != preflight.BPFFilesystem || findings[0].Severity != preflight.Blocking || len(findings[0].Nodes) != 1 {
		t.Errorf("got %+v", findings[0])
	}
}

// TestPreflight_CheckPods_UseInstallationImage also has command lines that name another image.
func TestPreflight_CheckPods_UseInstallationImage(t *testing.T) {
	for _, c := range []struct {
		values, image, policy string // image and policy are of the command line
		want                  string
	}{
		{"{}", "", "", "docker.io/alioth/alioth:" + version.Number + " IfNotPresent"},
		{"image: {tag: dev, pullPolicy: Never}", "", "", "docker.io/alioth/alioth:dev Never"},
		{"image: {repository: registry.example/alioth}", "", "", "registry.example/alioth:" + version.Number + " IfNotPresent"},
		{"image: {tag: dev}", "registry.example/alioth:1", "Always", "registry.example/alioth:1 Always"},
	} {
		values, err := preflight.ParseValues([]byte(c.values))
		if err != nil {
			t.Fatal(err)
		}
		r := readiness{pods: survey.NodePods{Image: c.image, PullPolicy: corev1.PullPolicy(c.policy), Within: time.Minute}}
		if err := r.completePods(values); err != nil {
			t.Error(err)
		}
		if got := r.pods.Image + " " + string(r.pods.PullPolicy); got != c.want {
			t.Errorf("values %s, --image %q: got %s, want %s", c.values, c.image, got, c.want)
		}
	}
}

func TestPreflight_WrongArguments_Refused(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	for want, arguments := range map[string][]string{
		"--node checks this machine": {"--kubeconfig="},
		"read the values":            {"--node", "--values", "/none"},
		"node node-checks":           {"--node", "--node-checks"},
		"--facts needs --node":       {"--facts", "{}"},
		"--facts: ":                  {"--node", "--facts", "{"},
		`--output "yaml"`:            {"--node", "-o", "yaml"},
	} {
		if out, err := run(t, append([]string{"preflight"}, arguments...)...); err == nil || !strings.Contains(err.Error(), want) || exitStatus(err) != 2 {
			t.Errorf("%v: %v, want %q\n%s", arguments, err, want, out)
		}
	}
}
