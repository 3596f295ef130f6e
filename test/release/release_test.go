// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/release/stamp"
	"github.com/alioth-net/alioth/test/soak"
)

const root = "../.."

// newBuilder returns a builder of a release of this work tree. It can run Helm.
func newBuilder(t *testing.T) *builder {
	t.Helper()
	needs.Kubernetes(t)
	readChart(t)
	cache, err := build.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	of, err := stamp.OfSources(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	return &builder{
		Options: Options{Root: tree, Tools: build.Builder{Root: tree, Cache: cache}, Progress: func(line string) { t.Log(line) }},
		stamp:   of, dir: t.TempDir(),
	}
}

// readChart reads the files that Helm reads: a result in Go's cache depends on the files that the
// process of the test has opened, and Helm runs as a process of its own.
func readChart(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "helm/alioth"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		_, err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// objects returns the objects of a file with manifests.
func objects(t *testing.T, text string) (found []unstructured.Unstructured) {
	t.Helper()
	for _, document := range regexp.MustCompile(`(?m)^---\n`).Split(text, -1) {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		if object.Object != nil {
			found = append(found, object)
		}
	}
	return found
}

func TestManifests_Each_CompleteWithPlaceholdersNamed(t *testing.T) {
	b := newBuilder(t)
	files, err := Manifests(t.Context(), b.Root, b.Tools)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]map[string]int{}
	for name, text := range files {
		if strings.Contains(text, rangeInRendering) {
			t.Errorf("%s has %s instead of the placeholder", name, rangeInRendering)
		}
		comment, rest, _ := strings.Cut(text, "---\n")
		for _, placeholder := range []string{HostPlaceholder, RangePlaceholder} {
			if strings.Contains(rest, placeholder) && !strings.Contains(comment, placeholder) {
				t.Errorf("%s uses %s without saying so", name, placeholder)
			}
		}
		kinds[name] = map[string]int{}
		for _, object := range objects(t, text) {
			kinds[name][object.GetKind()]++
		}
	}
	if got := kinds["crds.yaml"]; got["CustomResourceDefinition"] < 20 || len(got) != 1 {
		t.Errorf("crds.yaml has %v", got)
	}
	for _, kind := range []string{"Deployment", "DaemonSet", "ClusterRole", "ValidatingAdmissionPolicy", "VPC"} {
		if kinds["manifests.yaml"][kind] == 0 {
			t.Errorf("manifests.yaml has no %s", kind)
		}
	}
	if got := kinds["manifests.yaml"]; got["CustomResourceDefinition"] > 0 || got["Job"] > 0 {
		t.Errorf("manifests.yaml has what belongs to other files: %v", got)
	}
	if kinds["uninstall.yaml"]["Job"] != 1 {
		t.Errorf("uninstall.yaml has %v", kinds["uninstall.yaml"])
	}
}

func TestManifests_Containers_RunReleaseImage(t *testing.T) {
	b := newBuilder(t)
	files, err := Manifests(t.Context(), b.Root, b.Tools)
	if err != nil {
		t.Fatal(err)
	}
	var seen int
	for _, object := range objects(t, files["manifests.yaml"]) {
		template, found, err := unstructured.NestedMap(object.Object, "spec", "template")
		if err != nil || !found {
			continue
		}
		raw, err := yaml.Marshal(template)
		var pod corev1.PodTemplateSpec
		if err = errors.Join(err, yaml.Unmarshal(raw, &pod)); err != nil {
			t.Fatal(err)
		}
		for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			seen++
			if want := "docker.io/alioth/alioth:" + version.Number; container.Image != want {
				t.Errorf("%s runs %s, want %s", object.GetName(), container.Image, want)
			}
		}
	}
	if seen == 0 {
		t.Error("no container was found")
	}
}

func TestChart_OtherTime_SameBytes(t *testing.T) {
	var charts [][]byte
	for range 2 {
		b := newBuilder(t)
		if err := b.chart(t.Context()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(b.path("alioth-" + version.Number + ".tgz"))
		if err != nil {
			t.Fatal(err)
		}
		charts = append(charts, text)
	}
	if !bytes.Equal(charts[0], charts[1]) {
		t.Error("two packages of one chart differ")
	}
}

func TestWriteSums_Files_AcceptedBySha256sum(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b", "a"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteSums(dir); err != nil {
		t.Fatal(err)
	}
	check := func() error {
		cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", Sums)
		cmd.Dir = dir
		return cmd.Run()
	}
	if err := check(); err != nil {
		t.Errorf("sha256sum refuses the checksums: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if check() == nil {
		t.Error("a changed file has the right checksum")
	}
}

func TestBuild_ModifiedClone_Refused(t *testing.T) {
	tree := clone(t)
	if err := os.WriteFile(filepath.Join(tree, "README.md"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), Options{Root: tree, Out: t.TempDir()}); !errors.Is(err, errModified) {
		t.Errorf("a release of a clone with changes: %v", err)
	}
}

// clone clones the commit of this work tree into another folder.
func clone(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "alioth")
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", "--shared", root, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// The second folder has a longer name, and its files are younger.
func TestBuild_OtherFolder_SameRelease(t *testing.T) {
	soak.Part(t, "soak-release")
	sums := map[string]string{}
	for _, name := range []string{"one", "the-second-of-two-folders"} {
		tree := clone(t)
		b := newBuilder(t)
		dir, err := Build(t.Context(), Options{
			Root: tree, Out: filepath.Join(t.TempDir(), name), Progress: b.Progress, Tools: build.Builder{Root: tree, Cache: b.Tools.Cache},
		})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, Sums))
		if err != nil {
			t.Fatal(err)
		}
		sums[name] = string(text)
		runs(t.Context(), t, filepath.Join(dir, binary("aliothctl", "amd64")))
		// The folders take several hundred megabytes each.
		if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(tree)); err != nil {
			t.Fatal(err)
		}
	}
	if one, two := sums["one"], sums["the-second-of-two-folders"]; one != two {
		t.Errorf("the folders differ:\n%s\n%s", one, two)
	}
}

// runs checks that a released program tells its version and its commit.
func runs(ctx context.Context, t *testing.T, program string) {
	t.Helper()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if want := "v" + version.Number + ", commit "; err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "with changes") {
		t.Errorf("the program says %q, %v, want %q without changes", out, err, want)
	}
}
