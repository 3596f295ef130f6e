// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/alioth-net/alioth/test/needs"
)

// newTree writes a work tree with one program that needs no network.
func newTree(t *testing.T) (root string, p Program) {
	t.Helper()
	root = t.TempDir()
	files := map[string]string{
		"hello/go.mod":     "module example.com/hello\n\ngo 1.26\n\nrequire example.com/dep v1.2.3\n\nreplace example.com/dep => ./dep\n",
		"hello/go.sum":     "",
		"hello/main.go":    "package main\n\nimport \"example.com/dep\"\n\nfunc main() { println(dep.Version) }\n",
		"hello/dep/go.mod": "module example.com/dep\n\ngo 1.26\n",
		"hello/dep/dep.go": "package dep\n\nvar Version = \"unset\"\n",
	}
	for name, text := range files {
		path := filepath.Join(root, "test", "cluster", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root, Program{
		Name: "hello", Module: "example.com/dep", Packages: []string{"."},
		Links: []string{"hi"}, VersionVars: []string{"example.com/dep.Version"},
	}
}

func TestEnsure_TwoBuilders_BuiltOnce(t *testing.T) {
	root, p := newTree(t)
	cache := t.TempDir()
	var mu sync.Mutex
	built := 0
	progress := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(line, "built ") {
			built++
		}
	}
	var wg sync.WaitGroup
	dirs := make([]string, 2)
	for i := range dirs {
		wg.Go(func() {
			b := Builder{Root: root, Cache: cache, Progress: progress}
			dir, err := b.Ensure(t.Context(), p)
			if err != nil {
				t.Error(err)
			}
			dirs[i] = dir
		})
	}
	wg.Wait()
	if built != 1 || dirs[0] != dirs[1] {
		t.Errorf("built %d times into %q, want once into one folder", built, dirs)
	}
	if want := "hello-v1.2.3-"; !strings.HasPrefix(filepath.Base(dirs[0]), want) {
		t.Errorf("folder %q does not start with %q", dirs[0], want)
	}
	out, err := exec.Command(filepath.Join(dirs[0], "hi")).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "v1.2.3" {
		t.Errorf("the link prints %q, %v; want the linked version", out, err)
	}
}

// TestDefaultCache_FastRun_Refused: a test that has not called needs.Kubernetes builds nothing
// there.
func TestDefaultCache_FastRun_Refused(t *testing.T) {
	for fast, want := range map[string]bool{"1": false, "": true} {
		t.Setenv(needs.Variable, fast)
		if dir, err := DefaultCache(); (err == nil) != want {
			t.Errorf("with %s=%q the cache is %q, %v", needs.Variable, fast, dir, err)
		}
	}
}

func TestKey_ChangedInput_OtherFolder(t *testing.T) {
	root, p := newTree(t)
	b := Builder{Root: root, Cache: t.TempDir()}
	key := func(p Program) string {
		t.Helper()
		pins, err := b.pins(p)
		if err != nil {
			t.Fatal(err)
		}
		key, err := b.key(p, pins)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	before := key(p)
	main := filepath.Join(root, "test", "cluster", "hello", "main.go")
	if err := os.WriteFile(main, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	source := key(p)
	p.Tags = []string{"other"}
	tags := key(p)
	if before == source || source == tags {
		t.Errorf("keys %s, %s, %s: want three different ones", before, source, tags)
	}
}

func TestEnsure_BuildFails_CompilerShownNothingLeft(t *testing.T) {
	root, p := newTree(t)
	cache := t.TempDir()
	main := filepath.Join(root, "test", "cluster", "hello", "main.go")
	if err := os.WriteFile(main, []byte("package main\n\nfunc main() { undefinedName() }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := (&Builder{Root: root, Cache: cache}).Ensure(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "undefined: undefinedName") {
		t.Errorf("error %v does not show the compiler's message", err)
	}
	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			t.Errorf("the cache holds %s after a failed build", entry.Name())
		}
	}
}

func TestPins_MinorVersion_OwnModules(t *testing.T) {
	root, p := newTree(t)
	dir := filepath.Join(root, "test", "cluster", "hello")
	old := "module example.com/hello\n\ngo 1.26\n\nrequire example.com/dep v1.1.7\n\nreplace example.com/dep => ./old\n"
	for name, text := range map[string]string{
		"v1.1.mod": old, "v1.1.sum": "",
		"old/go.mod": "module example.com/dep\n\ngo 1.26\n", "old/dep.go": "package dep\n\nvar Version = \"unset\"\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := Builder{Root: root, Cache: t.TempDir()}
	for minor, want := range map[string]string{"": "v1.2.3", "1.2": "v1.2.3", "1.1": "v1.1.7"} {
		p.Minor = minor
		built, err := b.Ensure(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(filepath.Join(built, "hi")).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("minor version %q: the program prints %q, %v; want %s", minor, out, err, want)
		}
	}
	p.Minor = "1"
	if _, err := b.Ensure(t.Context(), p); err == nil || !strings.Contains(err.Error(), "v1.2.3, v1.1.7") {
		t.Errorf("error %v does not list the versions", err)
	}
}

func TestPrograms_EachOfLab_ModuleFound(t *testing.T) {
	b := Builder{Root: filepath.Join("..", "..", "..")}
	for _, p := range append(Programs(), KubeProxy(), Flannel(), Etcd(), Containerd("1.7")) {
		pins, err := b.pins(p)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		if _, err := b.key(p, pins); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if len(p.Binaries()) == 0 {
			t.Errorf("%s has no binaries", p.Name)
		}
	}
}

// Programs that use Kubernetes' libraries share most packages with the product. Go compiles a
// package once for all of them only if they want it, and everything below it, in one version.
func TestPrograms_SharedModules_VersionsOfProduct(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	product := requirements(t, filepath.Join(root, "go.mod"))
	for _, p := range []Program{Helm(), CoreDNS(), Containerd("")} {
		shared := 0
		for module, version := range requirements(t, filepath.Join(root, "test", "cluster", p.Name, "go.mod")) {
			if !strings.HasPrefix(module, "k8s.io/") && !strings.HasPrefix(module, "golang.org/x/") || product[module] == "" {
				continue
			}
			shared++
			if version != product[module] {
				t.Errorf("%s wants %s %s and the product %s: use the newer one in both go.mod files, or a cold build compiles what uses it twice",
					p.Name, module, version, product[module])
			}
		}
		if shared < 5 {
			t.Errorf("%s shares %d modules with the product: this test reads too few", p.Name, shared)
		}
	}
}

// requirements returns the versions that a go.mod file requires, by module.
func requirements(t *testing.T, path string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(path, raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, required := range file.Require {
		versions[required.Mod.Path] = required.Mod.Version
	}
	return versions
}
