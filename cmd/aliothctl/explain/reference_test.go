// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/docs/reference"
	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// root is the root of the work tree.
const root = "../../.."

// product returns the entries that aliothctl has.
func product() []Entry { return All(reference.Folder, reference.Pages()...) }

// sources returns the text of each Go file below folders of the work tree but for tests.
func sources(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			texts[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// literals returns the texts of the constants of a file whose names have an ending, or of
// the variables that errors.New makes.
func literals(t *testing.T, path, text, ending string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 {
			return true
		}
		value := spec.Values[0]
		if call, isCall := value.(*ast.CallExpr); isCall && ending == "" && isErrorsNew(call) {
			value = call.Args[0]
		} else if ending == "" || !strings.HasSuffix(spec.Names[0].Name, ending) {
			return true
		}
		for binary, isBinary := value.(*ast.BinaryExpr); isBinary; binary, isBinary = value.(*ast.BinaryExpr) {
			value = binary.X
		}
		if literal, isLiteral := value.(*ast.BasicLit); isLiteral {
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, text)
		}
		return true
	})
	return found
}

func isErrorsNew(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "New" {
		return false
	}
	of, ok := selector.X.(*ast.Ident)
	return ok && of.Name == "errors"
}

// fine are the reasons of conditions that are as they should be. Users do not look them up.
var fine = []string{"Ready", "AddressesAssigned", "Written", "Complete"}

func TestReasons_EachInCode_Explained(t *testing.T) {
	var reasons []string
	for path, text := range sources(t, "api/v1alpha1", "api/nmstate/v1") {
		if strings.HasPrefix(filepath.Base(path), "conditions") {
			reasons = append(reasons, literals(t, path, text, "Reason")...)
		}
	}
	if len(reasons) < 100 {
		t.Fatalf("%d reasons in the source: want more", len(reasons))
	}
	for reason := range telemetry.Reason(bpf.AliothReasonREASON_LEN) {
		if reason.Drop() {
			reasons = append(reasons, reason.String())
		}
	}
	reasons = append(reasons, netfilter.Reasons()...)
	explained := product()
	for _, reason := range reasons {
		if !slices.Contains(fine, reason) && len(Find(explained, reason)) == 0 {
			t.Errorf("docs/reference/reasons.md has no row for %s with what it means and what to do", reason)
		}
	}
}

// needNothing are the words of the rows without a remedy: they describe a state as it should be.
var needNothing = []string{
	"AliothIsUp", "Healthy", "SuccessfullyConfigured", "NoConflict", "arp_own", "arp_other", "nd_own", "nd_other",
	"router_solicitation", "mld", "egress_link_local", "egress_multicast",
}

func TestRows_Each_HasCauseAndRemedy(t *testing.T) {
	for _, entry := range product() {
		if entry.Meaning == "" || (entry.Remedy == "") != slices.Contains(needNothing, entry.Words[0]) {
			t.Errorf("the row of %s (%s) means %q and has the remedy %q", entry.Words[0], entry.Kind, entry.Meaning, entry.Remedy)
		}
		if strings.Contains(entry.Meaning+entry.Remedy, "as above") {
			t.Errorf("the row of %s (%s) refers to the row above, which aliothctl explain does not print", entry.Words[0], entry.Kind)
		}
	}
}

func TestRowLinks_Each_PageExists(t *testing.T) {
	for _, entry := range product() {
		for _, page := range regexp.MustCompile(`docs/[\w./-]+\w`).FindAllString(entry.Meaning+" "+entry.Remedy, -1) {
			if _, err := os.Stat(filepath.Join(root, page)); err != nil {
				t.Errorf("the row of %s (%s): %v", entry.Words[0], entry.Kind, err)
			}
		}
	}
}

// words returns the words of a kind, sorted.
func words(kind string) []string {
	var of []Entry
	for _, entry := range product() {
		if strings.HasPrefix(entry.Kind, kind) {
			of = append(of, entry)
		}
	}
	return Words(of)
}

// differ reports the elements that only one of two lists has.
func differ(t *testing.T, kind string, code, page []string) {
	t.Helper()
	for _, name := range code {
		if !slices.Contains(page, name) {
			t.Errorf("docs/reference/errors.md has no row for %s %s", kind, name)
		}
	}
	for _, name := range page {
		if !slices.Contains(code, name) {
			t.Errorf("docs/reference/errors.md has a row for %s %s, which is nowhere in the code", kind, name)
		}
	}
}

func TestAdmissionPolicies_Each_Explained(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, "helm/alioth/templates/*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("templates of the chart: %v, %v", paths, err)
	}
	var policies []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`kind: ValidatingAdmissionPolicy\nmetadata:\n  name: (\S+)`).FindAllStringSubmatch(string(text), -1) {
			policies = append(policies, found[1])
		}
		if count := strings.Count(string(text), "kind: ValidatingAdmissionPolicy\n"); count > strings.Count(
			string(text),
			"kind: ValidatingAdmissionPolicy\nmetadata:\n  name: alioth-",
		) {
			t.Errorf("%s has a policy whose name this test does not read", path)
		}
	}
	differ(t, "the admission policy", policies, words("admission policy"))
}

func TestCNICodes_Each_Explained(t *testing.T) {
	codes := map[string]uint{
		"types.ErrIncompatibleCNIVersion": types.ErrIncompatibleCNIVersion, "types.ErrUnsupportedField": types.ErrUnsupportedField,
		"types.ErrUnknownContainer": types.ErrUnknownContainer, "types.ErrInvalidEnvironmentVariables": types.ErrInvalidEnvironmentVariables,
		"types.ErrIOFailure": types.ErrIOFailure, "types.ErrDecodingFailure": types.ErrDecodingFailure,
		"types.ErrInvalidNetworkConfig": types.ErrInvalidNetworkConfig, "types.ErrInvalidNetNS": types.ErrInvalidNetNS,
		"types.ErrTryAgainLater": types.ErrTryAgainLater, "types.ErrInternal": types.ErrInternal,
		"cniapi.CodeNotReady": cniapi.CodeNotReady, "cniapi.CodeUnavailable": cniapi.CodeUnavailable, "cniapi.CodeFailed": cniapi.CodeFailed,
	}
	var used []string
	for path, text := range sources(t, "cnid", "cmd/alioth") {
		for _, found := range regexp.MustCompile(`types\.NewError\(([\w.]+),`).FindAllStringSubmatch(text, -1) {
			name := found[1]
			if !strings.Contains(name, ".") {
				name = "cniapi." + name
			}
			if name == "cniapi.coded.Code" || name == "coded.Code" { // of an error that has a code
				continue
			}
			if _, known := codes[name]; !known {
				t.Errorf("%s uses the code %s, which this test does not know: add it here, and a row to docs/reference/errors.md", path, name)
			}
			used = append(used, fmt.Sprintf("cni-%d", codes[name]))
		}
	}
	slices.Sort(used)
	differ(t, "the code", slices.Compact(used), words("CNI code"))
}

// Each error that has a name in the code is a class of errors.
func TestAliothctlErrors_EachNamed_Explained(t *testing.T) {
	var all strings.Builder
	explained := words("message of aliothctl")
	for path, text := range sources(t, "cmd/aliothctl") {
		all.WriteString(text)
		for _, message := range literals(t, path, text, "") {
			if !slices.ContainsFunc(explained, func(part string) bool { return strings.Contains(message, part) }) {
				t.Errorf("docs/reference/errors.md has no row for the error %q of aliothctl", message)
			}
		}
	}
	for _, part := range explained {
		if !strings.Contains(all.String(), part) {
			t.Errorf("docs/reference/errors.md has a row for the message %q, which aliothctl does not print", part)
		}
	}
}
