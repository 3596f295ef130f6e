// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/api/chart"
	"github.com/alioth-net/alioth/test/cluster/build"
)

// asPeopleDo runs a program with a cluster administrator's kubeconfig and returns its
// output.
func asPeopleDo(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	if err := chart.WriteKubeconfig(kubeconfig, shared.server.Config(t)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG="+kubeconfig)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestAddressRelease_Kubectl_RefusedWithCommand uses the programs that people use, with every
// existing right.
func TestAddressRelease_Kubectl_RefusedWithCommand(t *testing.T) {
	admin := start(t)
	left := address("10.8.0.1", "lost-node")
	left.Spec.Holder.Namespace, left.Spec.Holder.Name = "default", "left-behind"
	create(t, admin, left)
	cache, err := build.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	builder := build.Builder{Root: root, Cache: cache, Progress: func(line string) { t.Log(line) }}
	dir, err := builder.Ensure(t.Context(), build.Kubernetes(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{left.Name, "--all"} {
		out, err := asPeopleDo(t, filepath.Join(dir, "kubectl"), "delete", "addresses", what)
		if err == nil || !strings.Contains(out, "delete the pod or Service; only if that is gone and the address stays: aliothctl release v 10.8.0.1") {
			t.Errorf("kubectl delete addresses %s: %v\n%s\nwant it refused with the command to use", what, err, out)
		}
	}
	aliothctl := filepath.Join(t.TempDir(), "aliothctl")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", aliothctl, root+"/cmd/aliothctl").CombinedOutput(); err != nil {
		t.Fatalf("build aliothctl: %v\n%s", err, out)
	}
	if out, err := asPeopleDo(t, aliothctl, "release", "v", "10.8.0.1"); err != nil {
		t.Fatalf("aliothctl release: %v\n%s", err, out)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(left), left); !apierrors.IsNotFound(err) {
		t.Errorf("the address: %v, want it gone", err)
	}
	var events corev1.EventList
	if err := admin.List(t.Context(), &events, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.Reason == "AddressReleased" && e.InvolvedObject.Name == "left-behind" {
			return
		}
	}
	t.Errorf("no event tells of the release among %d", len(events.Items))
}
