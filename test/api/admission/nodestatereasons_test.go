// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNodeNetworkConditions_EachConstant_Documented compares the constants of package
// api/nmstate/v1 with the table of docs/reference/reasons.md whose cells are code.
func TestNodeNetworkConditions_EachConstant_Documented(t *testing.T) {
	table := regexp.MustCompile("(?m)^\\| (`[A-Z][^|]*) \\| (`[A-Z][^|]*) \\|").FindAllStringSubmatch(readGuide(t, "reference/reasons.md"), -1)
	if len(table) == 0 {
		t.Fatal("docs/reference/reasons.md has no table of conditions and reasons")
	}
	words := regexp.MustCompile("`([A-Za-z]+)`")
	for column, ending := range map[int]string{1: "Condition", 2: "Reason"} {
		var documented []string
		for _, row := range table {
			for _, word := range words.FindAllStringSubmatch(row[column], -1) {
				documented = append(documented, word[1])
			}
		}
		slices.Sort(documented)
		if diff := cmp.Diff(constants(t, ending), slices.Compact(documented)); diff != "" {
			t.Errorf("constants with the ending %s (-declared +documented):\n%s", ending, diff)
		}
	}
}

// constants returns the values of the constants of package api/nmstate/v1 with an ending, sorted.
func constants(t *testing.T, ending string) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "api", "nmstate", "v1", "conditions.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasSuffix(spec.Names[0].Name, ending) {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s is no literal", spec.Names[0].Name)
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
		return true
	})
	slices.Sort(values)
	return values
}
