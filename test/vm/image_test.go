// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/inspect/preflight"
	"github.com/alioth-net/alioth/test/vm/guest"
)

func TestPlan_EachPackage_OwnFolder(t *testing.T) {
	programs := []program{
		{importPath: "example.com/a/x", folder: "/src/a/x", file: "/out/ax.test"},
		{importPath: "example.com/b/x", folder: "/src/b/x", file: "/out/bx.test", run: "Good"},
	}
	variables := environmentOf([]string{"HOME=/root", "ALIOTH_SOAK=1"})
	got := choice{environment: variables}.plan(programs, []string{"/cache/lib/modules/6.1/kernel/net/veth.ko"})
	args := []string{"-test.v=test2json", "-test.timeout=1h0m0s"}
	selected := append(slices.Clone(args), "-test.run=Good")
	want := guest.Plan{
		Modules:     []string{"/modules/veth.ko"},
		Environment: []string{"ALIOTH_SOAK=1"},
		Tests: []guest.Test{
			{Package: "example.com/a/x", Binary: "/tests/example.com/a/x/run.test", Dir: "/tests/example.com/a/x", Args: args, Limit: packageLimit},
			{Package: "example.com/b/x", Binary: "/tests/example.com/b/x/run.test", Dir: "/tests/example.com/b/x", Args: selected, Limit: packageLimit},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestPlan_ChosenPattern_ReplacesPackagePattern(t *testing.T) {
	got := choice{pattern: "TestA"}.plan([]program{{importPath: "example.com/x", run: "Good"}}, nil)
	if args := got.Tests[0].Args; !slices.Contains(args, "-test.run=TestA") || slices.Contains(args, "-test.run=Good") {
		t.Errorf("the arguments are %v", args)
	}
}

func TestPlan_HardwareTests_OnlyWithHardware(t *testing.T) {
	programs := []program{{importPath: "example.com/x", hardware: true}, {importPath: "example.com/y"}}
	if without := (choice{pattern: "TestA"}).plan(programs, nil).Tests; len(without) != 1 || without[0].Package != "example.com/y" {
		t.Errorf("a machine without hardware runs %+v", without)
	}
	if with := (choice{hardware: true}).plan(programs, nil).Tests; len(with) != 2 {
		t.Errorf("a machine with hardware runs %+v", with)
	}
}

// A package that no kernel's machine can run would never be run.
func TestKernels_Hardware_SomeMachineHas(t *testing.T) {
	if !slices.ContainsFunc(Kernels(), func(k Kernel) bool { return k.Hardware }) {
		t.Error("no machine has hardware")
	}
}

// TestKernels_Oldest_EqualsPreflight: aliothctl preflight and the check of the machine before a lab
// name it.
func TestKernels_Oldest_EqualsPreflight(t *testing.T) {
	oldest := Kernels()[0].Series
	if preflight.MinKernel != oldest {
		t.Errorf("preflight wants Linux %s, and the oldest tested one is %s", preflight.MinKernel, oldest)
	}
	check, err := os.ReadFile("../cluster/host/check.sh")
	if want := "use " + oldest + " or newer"; err != nil || !strings.Contains(string(check), want) {
		t.Errorf("the check of the machine does not say %q: %v", want, err)
	}
}

func TestPackages_Each_Exists(t *testing.T) {
	if len(Kernels()) < 2 || len(Packages()) == 0 {
		t.Fatalf("kernels are %v, packages %v", Kernels(), Packages())
	}
	for _, p := range Packages() {
		if _, err := goCommand(t.Context(), "../..", "list", p.Path); err != nil {
			t.Error(err)
		}
	}
}
