// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPlan_OmittedTests_LeftOut(t *testing.T) {
	const between = "6.12"
	programs := []program{
		{importPath: "example.com/x", tests: 3, omitted: map[string][]string{between: {"TestA", "TestB"}}},
		{importPath: "example.com/y", tests: 1, omitted: map[string][]string{between: {"TestC"}}},
		{importPath: "example.com/z"},
	}
	var packages []string
	for _, test := range (choice{series: between}).plan(programs, nil).Tests {
		packages = append(packages, test.Package)
		if skips := slices.Contains(test.Args, "-test.skip=^(TestA|TestB)$"); skips != (test.Package == "example.com/x") {
			t.Errorf("%s is run with %v", test.Package, test.Args)
		}
	}
	if want := []string{"example.com/x", "example.com/z"}; !slices.Equal(packages, want) {
		t.Errorf("it runs %v, want %v", packages, want)
	}
	for name, chosen := range map[string]choice{
		"another kernel": {series: "6.1"}, "asked for by name": {series: between, pattern: "TestA"}, "everything": {series: between, everything: true},
	} {
		got := chosen.plan(programs, nil)
		if len(got.Tests) != 3 || slices.ContainsFunc(got.Tests[0].Args, func(a string) bool { return strings.Contains(a, "skip") }) {
			t.Errorf("%s leaves something out: %+v", name, got.Tests)
		}
	}
}

func TestOmissions_Each_Complete(t *testing.T) {
	for _, pkg := range Packages() {
		p := program{folder: filepath.Join("../..", pkg.Path)}
		if err := p.findOmitted(pkg.Omitted); err != nil {
			t.Error(err)
		}
		for i, omission := range pkg.Omitted {
			if omission.Reason == "" || len(omission.Kernels) == 0 || len(omission.Files) == 0 {
				t.Errorf("omission %d of %s: %+v", i, pkg.Path, omission)
			}
			for _, series := range omission.Kernels {
				if !slices.ContainsFunc(Kernels(), func(k Kernel) bool { return k.Series == series }) {
					t.Errorf("omission %d of %s is about the kernel %s, which nothing runs on", i, pkg.Path, series)
				}
			}
		}
	}
}

// TestOmissions_ProgramTests_NeverOmitted: the verifier, attaching and changes of a frame's length
// differ between kernels, so no kernel leaves their tests out.
func TestOmissions_ProgramTests_NeverOmitted(t *testing.T) {
	for path, files := range map[string][]string{
		"./ebpf/datapath":               {"adopt_test.go", "filters_test.go", "loaded_test.go", "netkit_test.go"},
		"./ebpf/datapath/test/roles":    {"hops_test.go", "toobig_test.go"},
		"./ebpf/datapath/test/traffic":  {"fragment_test.go", "mtu_test.go", "netkit_test.go", "vpc_test.go"},
		"./ebpf/datapath/test/verdicts": {"forwarded_test.go", "fragment_test.go", "netkit_test.go", "outer_test.go", "toobig_test.go"},
	} {
		i := slices.IndexFunc(Packages(), func(p Package) bool { return p.Path == path })
		p := program{folder: filepath.Join("../..", path)}
		if err := p.findOmitted(Packages()[i].Omitted); err != nil {
			t.Fatal(err)
		}
		always, err := testsIn(p.folder, files...)
		if err != nil {
			t.Fatal(err)
		}
		for _, kernel := range Kernels() {
			for _, test := range always {
				if slices.Contains(p.omitted[kernel.Series], test) {
					t.Errorf("linux %s leaves %s out", kernel.Series, test)
				}
			}
		}
	}
}

func TestTestsIn_Files_TestsFound(t *testing.T) {
	if tests, err := testsIn(".", "omission_test.go"); err != nil || !slices.Contains(tests, "TestTestsIn_Files_TestsFound") {
		t.Errorf("%v, %v", tests, err)
	}
	if tests, err := testsIn(".", "moved_*_test.go"); err == nil {
		t.Errorf("files that are not there have the tests %v", tests)
	}
}
