// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	stdcmp "cmp"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cnid/inspect/preflight"
	"github.com/alioth-net/alioth/test/cluster/build"
)

const root = "../.."

func TestPage_Table_MatchesRecord(t *testing.T) {
	r, err := readRecord(root)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	want, err := replaceTable(string(page), r.table())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("%s differs from %s: run go run ./test/versions --table (-record +page):\n%s", pageFile, recordFile, diff)
	}
	for _, run := range r.Runs {
		if _, err := choose([]string{run.Name}); err != nil {
			t.Errorf("the record has a run of an %v", err)
		}
	}
}

// TestRecord_Versions_EqualPins finds pins that changed after the run.
func TestRecord_Versions_EqualPins(t *testing.T) {
	r, err := readRecord(root)
	if err != nil {
		t.Fatal(err)
	}
	b := build.Builder{Root: root}
	pinned := func(p build.Program) string {
		v, err := b.Version(p)
		if err != nil {
			t.Error(err)
		}
		return v
	}
	for _, c := range combinations() {
		run, ok := r.last(c.name)
		if !ok || run.Kubernetes == "" && slices.Contains(run.Failed, wholeLab) {
			continue
		}
		// containerd 2 leaves the v of its version out.
		runtime := strings.TrimPrefix(strings.TrimPrefix(run.Runtime, "containerd://"), "v")
		got := []string{run.Kubernetes, run.Kubelet, "v" + runtime}
		want := []string{pinned(build.Kubernetes(c.Kubernetes)), pinned(build.Kubernetes(stdcmp.Or(c.Kubelet, c.Kubernetes))), pinned(build.Containerd(c.Containerd))}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s was last run with other versions: run make test-versions COMBINATIONS=%s (-pins +record):\n%s", c.name, c.name, diff)
		}
	}
}

func TestPreflight_Runtimes_EqualTested(t *testing.T) {
	b := build.Builder{Root: root}
	var ran []string
	for _, c := range combinations() {
		v, err := b.Version(build.Containerd(c.Containerd))
		if err != nil {
			t.Fatal(err)
		}
		ran = append(ran, "containerd://"+strings.TrimPrefix(v, "v"))
	}
	for _, known := range preflight.TestedRuntimes() {
		if !slices.ContainsFunc(ran, func(version string) bool { return strings.HasPrefix(version, known) }) {
			t.Errorf("preflight takes %s for tested, and the combinations have %v", known, ran)
		}
	}
	for _, version := range ran {
		if !slices.ContainsFunc(preflight.TestedRuntimes(), func(known string) bool { return strings.HasPrefix(version, known) }) {
			t.Errorf("preflight does not take %s for tested", version)
		}
	}
}

func TestCombinations_OldestKubernetes_Tested(t *testing.T) {
	for _, c := range combinations() {
		if c.Kubernetes == version.OldestKubernetes {
			return
		}
	}
	t.Errorf("no combination has an API server of version %s", version.OldestKubernetes)
}

func TestCombinations_EachAPIServer_TestedOnce(t *testing.T) {
	tested := map[string]int{}
	for _, c := range combinations() {
		tested[c.Kubernetes] += 0 // also where no combination runs them
		if len(c.onAPIServer()) > 0 {
			tested[c.Kubernetes]++
		}
	}
	for server, times := range tested {
		if times != 1 {
			t.Errorf("the tests of the API server %s run %d times, want once", server, times)
		}
	}
}

func TestScenes_EachNamed_IsTest(t *testing.T) {
	for _, s := range append(onLab(), combinations()[0].onAPIServer()...) {
		packages, err := filepath.Glob(filepath.Join(root, s.dir, "*_test.go"))
		if err != nil || len(packages) == 0 {
			t.Fatalf("%s has no tests: %v", s.dir, err)
		}
		declared := map[string]bool{}
		for _, file := range packages {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
					declared[f.Name.Name] = true
				}
			}
		}
		for _, name := range s.tests {
			if !declared[name] {
				t.Errorf("%s has no %s", s.dir, name)
			}
		}
	}
}

func TestRecord_NewRun_ReplacesEarlier(t *testing.T) {
	r := record{}.with(run{Name: "containerd-1.7", Passed: 1}).with(run{Name: "kubernetes-1.36", Passed: 2})
	r = r.with(run{Name: "containerd-1.7", Passed: 3, Failed: []string{"test/e2e.TestA", "test/e2e.TestB"}})
	want := []run{{Name: "kubernetes-1.36", Passed: 2}, {Name: "containerd-1.7", Passed: 3, Failed: []string{"test/e2e.TestA", "test/e2e.TestB"}}}
	if diff := cmp.Diff(want, r.Runs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	lab := record{}.with(run{Name: "kubelet-1.34", Date: "2026-11-30", Commit: "c", Failed: []string{wholeLab}})
	if row := "| 1.36 | 1.34 | containerd 2 | | 2026-11-30 | c | 0 tests passed; failed: lab |\n"; !strings.Contains(
		strings.ReplaceAll(lab.table(), "|  |", "| |"),
		row,
	) {
		t.Errorf("the table lacks %q:\n%s", row, lab.table())
	}
	for _, row := range []string{"| 3 tests passed; failed: test/e2e.TestA, test/e2e.TestB |\n", "| 1.36 | 1.34 | containerd 2 | | | | not run yet |\n"} {
		if !strings.Contains(r.table(), row) {
			t.Errorf("the table lacks %q:\n%s", row, r.table())
		}
	}
}

// newRecord makes a folder with the page and a record of two combinations that passed.
func newRecord(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(pageFile)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, pageFile), []byte(tableBegin+"\n"+tableEnd+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	passed := record{}.with(run{Name: "kubelet-1.34", Kubernetes: "v1", Passed: 3}).with(run{Name: "containerd-1.7", Kubernetes: "v1", Passed: 3})
	if err := passed.write(root); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestRun_LabFails_RecordedAndOthersRun: the row of an earlier run would say that the combination
// passes.
func TestRun_LabFails_RecordedAndOthersRun(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want []string
		end  error
	}{
		"it does not come up":    {errors.New("no node came up"), []string{"0 tests passed; failed: lab", "2 tests passed"}, errFailed},
		"another lab is up":      {errLabUp, []string{"3 tests passed", "3 tests passed"}, errLabUp},
		"the run is interrupted": {context.Canceled, []string{"3 tests passed", "3 tests passed"}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRecord(t)
			ctx, cancel := context.WithCancel(t.Context())
			tester := newTester(root, "c", io.Discard)
			tester.onLab = func(_ context.Context, c combination, result *run) (map[string]bool, error) {
				if errors.Is(tt.err, context.Canceled) {
					cancel()
				}
				if c.name == "kubelet-1.34" {
					return nil, tt.err
				}
				result.Kubernetes = "v2"
				return map[string]bool{"a": true, "b": true}, nil
			}
			chosen, err := choose([]string{"kubelet-1.34", "containerd-1.7"})
			if err != nil {
				t.Fatal(err)
			}
			if err := tester.testAll(ctx, chosen); !errors.Is(err, tt.end) {
				t.Errorf("error %v, want %v", err, tt.end)
			}
			r, err := readRecord(root)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, run := range r.Runs {
				got = append(got, run.result())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadResults_Output_OnlyTopLevelTests(t *testing.T) {
	const output = `=== RUN   TestA
--- PASS: TestA (0.10s)
    --- FAIL: TestA/sub (0.01s)
--- SKIP: TestSkipped (0.00s)
--- FAIL: TestB (2.00s)
FAIL
`
	got := (&tester{out: io.Discard}).readResults(strings.NewReader(output), "test/x")
	if want := (map[string]bool{"test/x.TestA": true, "test/x.TestB": false}); !maps.Equal(got, want) {
		t.Errorf("results %v, want %v", got, want)
	}
}

func TestChoose_UnknownCombination_RefusedWithKnown(t *testing.T) {
	if _, err := choose([]string{"kubernetes-1.2"}); err == nil || !strings.Contains(err.Error(), "kubernetes-1.36") {
		t.Errorf("error %v", err)
	}
	chosen, err := choose([]string{"containerd-1.7"})
	if err != nil || len(chosen) != 1 || chosen[0].Containerd != "1.7" {
		t.Errorf("chosen %+v, %v", chosen, err)
	}
}
