// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

func TestFind_Name_PackageFound(t *testing.T) {
	file := func(name string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package p\n\nfunc " + name + "(t *testing.T) {}\n")}
	}
	tree := fstest.MapFS{
		"a/x_test.go":               file("TestOne"),
		"a/y_test.go":               file("TestBoth"),
		"a/z_test.go":               file("TestOneMore"),
		"b/c/x_test.go":             file("TestBoth"),
		"b/testdata/x_test.go":      file("TestOne"),
		".hidden/x_test.go":         file("TestOne"),
		"other/go.mod":              {Data: []byte("module other\n")},
		"other/x_test.go":           file("TestOne"),
		"a/notatest.go":             file("TestTwo"),
		"a/string_test.go":          {Data: []byte("package p\n\nvar s = `func TestTwo(t *testing.T)`\n")},
		"test/cluster/up/x_test.go": file("TestUp"),
	}
	for name, tt := range map[string]struct{ name, only, want, err string }{
		"one package":            {"TestOne", "", "./a", ""},
		"a subtest":              {"TestOne/of several words", "", "./a", ""},
		"two packages":           {"TestBoth", "", "", "2 packages have a test TestBoth; set PACKAGE to one of: ./a ./b/c"},
		"one of them":            {"TestBoth", "./b/c", "./b/c", ""},
		"a folder as people say": {"TestBoth", "b/c/", "./b/c", ""},
		"another package":        {"TestOne", "./b", "", "package ./b has no test TestOne; these have one: ./a"},
		"no package":             {"TestTwo", "", "", "no package has a test TestTwo"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := find(tree, tt.name, tt.only)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestStepOf_Package_FirstStepCounts(t *testing.T) {
	steps, err := parseSteps([]string{"test-api=./test/api/chart ./test/api/...", "test-scenes=./test/e2e", "test-unit=./... -./test/e2e/..."})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"./test/api/chart": "test-api", "./test/api/a/b": "test-api", "./test/e2e": "test-scenes",
		"./test/e2e/new": "", "./test/e2etool": "test-unit", "./test/apitool": "test-unit", "./cnid": "test-unit",
	} {
		if got, err := stepOf(steps, path); got != want || (err == nil) != (want != "") {
			t.Errorf("%s has step %q, %v; want %q", path, got, err, want)
		}
	}
	if _, err := parseSteps([]string{"./test/e2e"}); err == nil {
		t.Error("a step without a name is accepted")
	}
}

func TestExpression_Name_MatchesOneTest(t *testing.T) {
	if got, want := expression("TestA/10.0.0.1 answers"), `^TestA$/^10\.0\.0\.1 answers$`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMake_VariableMissing_Told(t *testing.T) {
	for target, want := range map[string]string{
		"test-one": "set T to the name of a test",
		"repeat":   "set PACKAGE, TEST, and STEP to one of: test-operator",
	} {
		cmd := exec.Command("env", "-u", "MAKEFLAGS", "-u", "T", "-u", "PACKAGE", "-u", "TEST", "-u", "STEP", "make", "-C", "../..", "--no-print-directory", target)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("make %s: %v\n%s\nwant %q", target, err, out, want)
		}
	}
}

// recipe returns the commands that make would run for a target, without running them.
func recipe(t *testing.T, arguments ...string) string {
	t.Helper()
	// A result in Go's cache depends on the files that this process has opened.
	if _, err := os.ReadFile("../../Makefile"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("env", append([]string{"-u", "MAKEFLAGS", "-u", "KEEP_LAB", "make", "-C", "../..", "--no-print-directory", "-n"}, arguments...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make -n %v: %v\n%s", arguments, err, out)
	}
	return string(out)
}

// stepsOfMake returns the steps that the Makefile gives to this program.
func stepsOfMake(t *testing.T) []step {
	t.Helper()
	out := recipe(t, "test-one", "T=TestMake_TestOne_RunsItsStep")
	var texts []string
	for rest := out; ; {
		_, after, ok := strings.Cut(rest, `--step "`)
		if !ok {
			break
		}
		text, after, _ := strings.Cut(after, `"`)
		texts, rest = append(texts, text), after
	}
	steps, err := parseSteps(texts)
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return steps
}

// TestSteps_EachPackage_HasOne finds a package below test/e2e or test/api that nothing runs: the
// step of all other packages leaves these folders out.
func TestSteps_EachPackage_HasOne(t *testing.T) {
	steps := stepsOfMake(t)
	err := fs.WalkDir(os.DirFS("../.."), "test", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		if _, err := stepOf(steps, "./"+path.Dir(file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDownOf_EachStep_OwnCommand(t *testing.T) {
	for _, step := range stepsOfMake(t) {
		want := ""
		switch out := recipe(t, step.name); {
		case strings.Contains(out, "cmd/lab --hardware down"):
			want = "make down-hardware"
		case strings.Contains(out, "cmd/lab down"):
			want = "make down"
		}
		if got := downOf(step.name); got != want {
			t.Errorf("%q takes down the lab of %s, want %q", got, step.name, want)
		}
	}
}

// TestMake_TestOne_RunsItsStep asks the Makefile itself, without running anything: the steps of
// this test's package and of a package with a lab.
func TestMake_TestOne_RunsItsStep(t *testing.T) {
	steps := stepsOfMake(t)
	for name, want := range map[string]string{
		"TestMake_TestOne_RunsItsStep":                 "test-unit",
		"TestOperator_RandomEvents_InvariantsHold":     "test-operator",
		"TestTrustInventory_Document_MatchesAPIServer": "test-api",
		"TestReports_Undisturbing_RightValue":          "test-scenes",
		"TestLostNode_PodAddresses_ReleasedOnceFenced": "test-faults",
		"TestUpDown_Alioth_NothingLeft":                "test-updown",
		"TestDemo_RunTwice_HintsWork":                  "test-demo",
	} {
		path, err := find(os.DirFS("../.."), name, "")
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := stepOf(steps, path); got != want {
			t.Errorf("%s of %s has step %q, %v; want %q", name, path, got, err, want)
		}
	}
}
