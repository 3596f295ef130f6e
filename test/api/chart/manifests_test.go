// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/chart"
	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/release"
)

// TestReleaseManifests_WithoutHelm_InstallAlioth applies them by the commands that the files
// themselves name.
func TestReleaseManifests_WithoutHelm_InstallAlioth(t *testing.T) {
	needs.Kubernetes(t)
	cache, err := build.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	tools := build.Builder{Root: root, Cache: cache}
	files, err := release.Manifests(t.Context(), root, tools)
	if err != nil {
		t.Fatal(err)
	}
	programs, err := tools.Ensure(t.Context(), build.Kubernetes(""))
	if err != nil {
		t.Fatal(err)
	}
	server := bareServer(t)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := chart.WriteKubeconfig(kubeconfig, server.Config()); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"crds.yaml", "manifests.yaml"} {
		for _, line := range commands(t, files[name]) {
			cmd := exec.CommandContext(t.Context(), "bash", "-eu", "-o", "pipefail", "-c", line)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+programs+":"+os.Getenv("PATH"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %s: %v\n%s", name, line, err, out)
			}
		}
	}
	if err := newClient(t, server).Get(t.Context(), client.ObjectKey{Name: "default"}, new(v1alpha1.VPC)); err != nil {
		t.Errorf("the default VPC: %v", err)
	}
}

// commands returns the lines of the comment at the begin of a file that run kubectl.
func commands(t *testing.T, text string) (list []string) {
	t.Helper()
	comment, _, _ := strings.Cut(text, "---\n")
	for line := range strings.Lines(comment) {
		if line = strings.TrimSpace(strings.TrimPrefix(line, "#")); strings.HasPrefix(line, "kubectl ") || strings.HasPrefix(line, "sed ") {
			list = append(list, line)
		}
	}
	if len(list) < 2 {
		t.Fatalf("the file names the commands %q", list)
	}
	return list
}
