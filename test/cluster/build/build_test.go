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

func TestTwoBuildersOfOneProgramBuildItOnce(t *testing.T) {
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

func TestAChangedInputMeansAnotherFolder(t *testing.T) {
	root, p := newTree(t)
	b := Builder{Root: root, Cache: t.TempDir()}
	_, before, err := b.identify(p)
	if err != nil {
		t.Fatal(err)
	}
	main := filepath.Join(root, "test", "cluster", "hello", "main.go")
	if err := os.WriteFile(main, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, source, err := b.identify(p)
	if err != nil {
		t.Fatal(err)
	}
	p.Tags = []string{"other"}
	_, tags, err := b.identify(p)
	if err != nil {
		t.Fatal(err)
	}
	if before == source || source == tags {
		t.Errorf("keys %s, %s, %s: want three different ones", before, source, tags)
	}
}

func TestAFailedBuildLeavesNothingAndShowsTheCompiler(t *testing.T) {
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

func TestRequiredVersionNamesTheMissingModule(t *testing.T) {
	const gomod = "module x\n\ngo 1.26\n\nrequire example.com/a v1.0.0\n"
	if v, err := requiredVersion([]byte(gomod), "example.com/a"); err != nil || v != "v1.0.0" {
		t.Errorf("got %q, %v; want v1.0.0", v, err)
	}
	if _, err := requiredVersion([]byte(gomod), "example.com/b"); err == nil || !strings.Contains(err.Error(), "example.com/b") {
		t.Errorf("error %v does not name the module", err)
	}
}

func TestEveryProgramOfTheLabHasItsModule(t *testing.T) {
	b := Builder{Root: filepath.Join("..", "..", "..")}
	for _, p := range Programs() {
		if _, _, err := b.identify(p); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if len(p.Binaries()) == 0 {
			t.Errorf("%s has no binaries", p.Name)
		}
	}
}

// Programs that use Kubernetes' libraries share most packages with the product. Go compiles a
// package once for all of them only if they want it, and everything below it, in one version.
func TestTheProgramsOfTheLabShareTheModulesOfTheProduct(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	product := requirements(t, filepath.Join(root, "go.mod"))
	for _, p := range []Program{Helm(), CoreDNS(), Containerd()} {
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
