// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package marked_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/alioth-net/alioth/test/soak/marked"
)

// tree is a module with a test for each way to the marker, and tests without one.
func tree(more map[string]string) fstest.MapFS {
	const importing = "\nimport (\n\"testing\"\n\"github.com/alioth-net/alioth/test/soak\"\n)\n"
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"a/a_test.go": "package a" + importing +
			"func TestItself(t *testing.T) { soak.Or(t, 1, 2) }\n" +
			"func TestByHelper(t *testing.T) { t.Run(\"x\", testHelper) }\n" +
			"func testHelper(t *testing.T) { soak.Worlds(t, 1, 2) }\n" +
			"func TestByMethod(t *testing.T) { (&env{}).crowd(t) }\n" +
			"func (*env) crowd(t *testing.T) { soak.Or(t, 1, 2) }\n" +
			"func TestAlone(t *testing.T) { soak.Part(t, \"soak-alone\") }\n" +
			"func TestOfNothing(t *testing.T) { soak.World(1) }\n" +
			"func TestMain(m *testing.M) { soak.Only(nil) }\n",
		"b/kill/kill.go": "package kill" + importing + "func All(t *testing.T) { soak.Or(t, 1, 2) }\n",
		"b/b_test.go": "package b\nimport (\n\"testing\"\nother \"github.com/alioth-net/alioth/b/kill\"\n)\n" +
			"func TestByPackage(t *testing.T) { other.All(t) }\nfunc TestOfNothing(t *testing.T) { local.All(t) }\n",
		"c/c_test.go": "package c" + importing +
			"var _ = add(func(t *testing.T) { soak.Only(t) })\nfunc TestAllOfAList(t *testing.T) {}\n",
		"other/go.mod":          "module x\n",
		"other/a_test.go":       "package a" + importing + "func TestElsewhere(t *testing.T) { soak.Only(t) }\n",
		"a/testdata/a_test.go":  "package a" + importing + "func TestData(t *testing.T) { soak.Only(t) }\n",
		"test/soak/any_test.go": "package soak\nimport \"testing\"\nfunc TestOr(t *testing.T) { Or(t, 1, 2) }\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range more {
		files[name] = &fstest.MapFile{Data: []byte("package x" + importing + text)}
	}
	return files
}

func TestFind_Calls_TestsFound(t *testing.T) {
	got, err := marked.Find(
		tree(map[string]string{"a/a2_test.go": "func BenchmarkX(b *testing.B) { TestItself(nil) }\nfunc TestFrom(t *testing.T) { TestMain(nil) }"}),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []marked.Test{
		{"./a", "TestAlone", "soak-alone"},
		{"./a", "TestByHelper", ""},
		{"./a", "TestByMethod", ""},
		{"./a", "TestFrom", ""},
		{"./a", "TestItself", ""},
		{"./b", "TestByPackage", ""},
		{"./c", "TestAllOfAList", ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	arguments, err := marked.Arguments(marked.Select(got, "", []string{"./b/...", "./..."}, []string{"./c"}))
	if text := strings.Join(arguments, " "); err != nil || text != "-run ^(TestByHelper|TestByMethod|TestByPackage|TestFrom|TestItself)$ ./b ./a" {
		t.Errorf("arguments are %s, %v", text, err)
	}
	if _, err := marked.Arguments(marked.Select(got, "soak-nothing", []string{"./..."}, nil)); err == nil {
		t.Error("a part without a test has arguments")
	}
}

func TestFind_CallOutsideTest_Error(t *testing.T) {
	for text, want := range map[string]string{
		"func BenchmarkX(b *testing.B) { soak.Or(b, 1, 2) }":       "./d: BenchmarkX calls",
		"func helper(t *testing.T) { soak.Part(t, \"soak-x\") }":   "only a test itself",
		"func TestX(t *testing.T) { p := \"x\"; soak.Part(t, p) }": "as a literal",
	} {
		_, err := marked.Find(tree(map[string]string{"d/d_test.go": text, "a/a2_test.go": "func TestFrom(t *testing.T) { TestMain(nil) }"}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestFind_ThisTree_SoakTestsFound has those that make soak ran when the Makefile listed them.
func TestFind_ThisTree_SoakTestsFound(t *testing.T) {
	tests, err := marked.Find(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []marked.Test{
		{"./operator", "TestOperator_RandomEvents_InvariantsHold", ""},
		{"./operator", "TestHostVNIs_RandomEvents_NumbersDistinct", ""},
		{"./operator", "TestWrites_EachFails_NothingLostOrLeaked", ""},
		{"./operator", "TestPolicies_ManyNodes_ReachedFewAtATime", ""},
		{"./operator", "TestReservations_RandomEvents_NoForeignHolder", ""},
		{"./operator/ipam", "TestChoose_RandomRequests_EqualNaiveModel", ""},
		{"./cmd/alioth-operator", "TestOperator_KilledAtAnyMoment_NothingLost", ""},
		{"./cmd/alioth-operator", "TestLeader_KilledInMemberChange_SuccessorCompletes", ""},
		{"./cmd/alioth-operator", "TestLeader_BusyMachine_KeepsLease", "soak-busy"},
		{"./cnid", "TestDaemon_KilledAtEachMoment_TrafficUndisturbed", ""},
		{"./cnid/forward/plan", "TestPlanner_RandomChanges_EqualsBuild", ""},
		{"./cnid/forward/plan", "TestPlan_HostileRow_OthersUnchanged", ""},
		{"./cnid/forward/netfilter", "TestFrontends_IncrementalChange_EqualsFullApply", ""},
		{"./cnid/forward/lookup", "TestLookupLoop_MissFlood_GoroutinesBounded", ""},
		{"./cnid/forward/lookup/cache", "TestMiss_Flood_QuestionsBounded", ""},
		{"./cnid/forward/lookup/cache", "TestCache_RandomEvents_BudgetsKeptNoStaleRows", ""},
		{"./ebpf/datapath", "TestPrograms_Replaced_NoPacketLost", ""},
		{"./ebpf/datapath", "TestFilter_Replaced_NoPacketLost", ""},
		{"./cnid/nmstate/plan", "TestPlan_RandomStates_ReachedAndRestored", ""},
		{"./cnid/nmstate/snapshot", "TestRestore_RandomHosts_EqualToSnapshot", ""},
		{"./cnid/nmstate/transaction", "TestTransaction_RandomDocuments_HostRestored", ""},
		{"./cnid/nmstate/transaction", "TestTransaction_KillsOnRandomHosts_Restored", ""},
		{"./cnid/nmstate/dhcp/v4", "TestDHCPClient_RandomMessages_OnlyPromisedUsed", ""},
		{"./cnid/nmstate/dhcp/v6", "TestDHCPClient_RandomMessages_OnlyPromisedUsed", ""},
		{"./cnid/nmstate/dhcp/client", "TestDHCPClient_ThirdOfPacketsLost_LeaseObtained", ""},
		{"./cnid/nodeipam", "TestNodeIPAM_RequestReleaseCycles_NothingLeft", ""},
		{"./test/api/rights", "TestAddressClaims_ManyPodsOneNetwork_AllDistinct", ""},
		{"./cnid/cni/drivers/sriov", "TestSRIOV_ProcessKilledAtEachMoment_DeviceRestored", ""},
		{"./cnid/cni/drivers/ipvlan", "TestAttach_DaemonKilledAtEachMoment_NothingLeft", ""},
		{"./cnid/nodeipam/plugin/nodenic", "TestDelegatedNIC_KilledAtEachMoment_NodeRestored", ""},
		{"./cnid/nodeipam/plugin/nodenic", "TestDelegatedVF_KilledAtEachMoment_NodeRestored", ""},
		{"./test/release", "TestBuild_OtherFolder_SameRelease", "soak-release"},
		{"./test/demo", "TestDemo_RunTwice_HintsWork", ""},
		{"./test/reports", "TestReports_Undisturbing_RightValue", ""},
		{"./test/reports", "TestReports_Disturbing_RightValue", ""},
		{"./test/reports", "TestReports_Outages_RightValue", ""},
		{"./test/e2e", "TestServices_ManyOnNode_ServedAndRemoved", ""},
		{"./test/e2e/faults", "TestAPIServerOutage_Pods_OnlyEndingsHappen", ""},
		{"./test/e2e/faults", "TestPodWave_EachProgramKilled_StartsAndEnds", ""},
		{"./test/e2e/upgrade", "TestUpgrade_LeaderKilled_Unnoticed", ""},
		{"./test/e2e/upgrade", "TestUpgrade_OperatorAlone_OldDaemonsWork", ""},
	} {
		if !slices.Contains(tests, want) {
			t.Errorf("%v is not found", want)
		}
	}
}

// TestMarkers_SoakFunctions_AllKnown compares the functions that count as markers with test/soak.
func TestMarkers_SoakFunctions_AllKnown(t *testing.T) {
	files := os.DirFS("..")
	names, err := fs.Glob(files, "*.go")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path.Join("..", name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.IsExported() && takesTest(f) {
				got = append(got, f.Name.Name)
			}
		}
	}
	if want := marked.Marks(); !reflect.DeepEqual(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("functions with a test are %v, those that mark are %v", got, want)
	}
}

func takesTest(f *ast.FuncDecl) bool {
	for _, p := range f.Type.Params.List {
		if selector, ok := p.Type.(*ast.SelectorExpr); ok && selector.Sel.Name == "TB" {
			return true
		}
	}
	return false
}
