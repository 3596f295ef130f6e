// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostFunctionFields is how many fields of structures are functions. A change may lower it. A
// structure that needs a new one takes an interface of the consumer, with the methods that it
// calls.
const mostFunctionFields = 80

// functions returns how many of the fields are functions.
func functions(fields []*ast.Field) (count int) {
	for _, field := range fields {
		if _, is := field.Type.(*ast.FuncType); is {
			count += len(field.Names)
		}
	}
	return count
}

// families are names of flags in place of an ipfamily.Family.
var families = []string{"is4", "is6", "v4", "v6", "ipv4", "ipv6", "four", "six"}

// eachFile calls do for each Go file of the product, without tests.
func eachFile(t *testing.T, do func(name string, file *ast.File)) {
	t.Helper()
	for _, folder := range packages(t, product...) {
		if helper(folder) || strings.Contains(folder, "/test/") {
			continue
		}
		names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			do(strings.TrimPrefix(name, root+"/"), file)
		}
	}
}

func TestParameters_FamilyFlag_Absent(t *testing.T) {
	checked := 0
	eachFile(t, func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncType)
			if !ok {
				return true
			}
			checked++
			for _, field := range f.Params.List {
				if types.ExprString(field.Type) != "bool" {
					continue
				}
				for _, parameter := range field.Names {
					if slices.Contains(families, strings.ToLower(parameter.Name)) {
						t.Errorf("%s: the parameter %s is a flag: use an ipfamily.Family", name, parameter.Name)
					}
				}
			}
			return true
		})
	})
	if checked < 1000 {
		t.Errorf("only %d functions were checked", checked)
	}
}

func TestFields_FunctionsAndGates_FewAndTyped(t *testing.T) {
	count := 0
	eachFile(t, func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			var list []*ast.Field
			switch n := n.(type) {
			case *ast.StructType:
				list = n.Fields.List
				count += functions(list)
			case *ast.FuncType:
				list = n.Params.List
			}
			for _, field := range list {
				if types.ExprString(field.Type) == "func() (bool, <-chan struct{})" {
					t.Errorf("%s: %v is a gate: use broadcast.Gate", name, field.Names)
				}
			}
			return true
		})
	})
	if count > mostFunctionFields || count == 0 {
		t.Errorf("%d fields are functions, %d may be", count, mostFunctionFields)
	}
	t.Logf("%d fields are functions", count)
}
