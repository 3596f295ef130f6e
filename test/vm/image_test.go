// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/vm/guest"
)

func TestAPlanRunsEachPackageInItsOwnFolder(t *testing.T) {
	programs := []program{
		{importPath: "example.com/a/x", folder: "/src/a/x", file: "/out/ax.test"},
		{importPath: "example.com/b/x", folder: "/src/b/x", file: "/out/bx.test", run: "Good"},
	}
	got := plan(programs, []string{"/cache/lib/modules/6.1/kernel/net/veth.ko"}, "", false)
	args := []string{"-test.v=test2json", "-test.timeout=30m0s"}
	selected := append(slices.Clone(args), "-test.run=Good")
	want := guest.Plan{
		Modules: []string{"/modules/veth.ko"},
		Tests: []guest.Test{
			{Package: "example.com/a/x", Binary: "/tests/example.com/a/x/run.test", Dir: "/tests/example.com/a/x", Args: args, Limit: packageLimit},
			{Package: "example.com/b/x", Binary: "/tests/example.com/b/x/run.test", Dir: "/tests/example.com/b/x", Args: selected, Limit: packageLimit},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestAPatternTakesThePlaceOfAPackagesOwn(t *testing.T) {
	got := plan([]program{{importPath: "example.com/x", run: "Good"}}, nil, "TestA", false)
	if args := got.Tests[0].Args; !slices.Contains(args, "-test.run=TestA") || slices.Contains(args, "-test.run=Good") {
		t.Errorf("the arguments are %v", args)
	}
}

func TestAKernelBetweenOthersLeavesOutWhatAllDoAlike(t *testing.T) {
	programs := []program{
		{importPath: "example.com/x", alike: []string{"TestA", "TestB"}},
		{importPath: "example.com/y", alike: []string{"TestC"}, allAlike: true},
		{importPath: "example.com/z"},
	}
	var packages []string
	for _, test := range plan(programs, nil, "", true).Tests {
		packages = append(packages, test.Package)
		if skips := slices.Contains(test.Args, "-test.skip=^(TestA|TestB)$"); skips != (test.Package == "example.com/x") {
			t.Errorf("%s is run with %v", test.Package, test.Args)
		}
	}
	if want := []string{"example.com/x", "example.com/z"}; !slices.Equal(packages, want) {
		t.Errorf("it runs %v, want %v", packages, want)
	}
	for name, got := range map[string]guest.Plan{
		"another kernel": plan(programs, nil, "", false), "asked for by name": plan(programs, nil, "TestA", true),
	} {
		if len(got.Tests) != 3 || slices.ContainsFunc(got.Tests[0].Args, func(a string) bool { return strings.Contains(a, "skip") }) {
			t.Errorf("%s leaves something out: %+v", name, got.Tests)
		}
	}
}

func TestWhatKernelsDoAlikeIsFoundInFiles(t *testing.T) {
	for _, pkg := range Packages() {
		p := program{folder: filepath.Join("../..", pkg.Path)}
		if err := p.findAlike(pkg.Alike); err != nil {
			t.Error(err)
		}
		if len(pkg.Alike) > 0 && len(p.alike) == 0 {
			t.Errorf("no test of %s is alike", pkg.Path)
		}
	}
	if tests, err := testsIn(".", "image_test.go"); err != nil || !slices.Contains(tests, "TestWhatKernelsDoAlikeIsFoundInFiles") {
		t.Errorf("%v, %v", tests, err)
	}
	if tests, err := testsIn(".", "moved_*_test.go"); err == nil {
		t.Errorf("files that are not there have the tests %v", tests)
	}
}

func TestLibrariesAreFoundInWhatLddSays(t *testing.T) {
	const ldd = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibnftables.so.1 => /lib/x86_64-linux-gnu/libnftables.so.1 (0x00007f)\n" +
		"\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n"
	want := []string{"/lib/x86_64-linux-gnu/libnftables.so.1", "/lib64/ld-linux-x86-64.so.2"}
	if diff := cmp.Diff(want, libraries(ldd)); diff != "" {
		t.Errorf("libraries (-want +got):\n%s", diff)
	}
}

func TestEveryKernelAndPackageIsThere(t *testing.T) {
	if len(Kernels()) < 2 || len(Packages()) == 0 {
		t.Fatalf("kernels are %v, packages %v", Kernels(), Packages())
	}
	for _, p := range Packages() {
		if _, err := goCommand(t.Context(), "../..", "list", p.Path); err != nil {
			t.Error(err)
		}
	}
}
