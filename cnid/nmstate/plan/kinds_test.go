// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stepTypes are the types of this package that are steps: those with a method String.
func stepTypes(t *testing.T) (names []string) {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range file.Decls {
			f, ok := declared.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "String" {
				continue
			}
			if receiver, ok := f.Recv.List[0].Type.(*ast.Ident); ok {
				names = append(names, receiver.Name)
			}
		}
	}
	return names
}

func TestPlanKinds_EachStepType_Listed(t *testing.T) {
	var kinds []string
	for _, step := range Kinds() {
		kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", step), "plan."))
	}
	want := stepTypes(t)
	slices.Sort(kinds)
	slices.Sort(want)
	if !slices.Equal(kinds, want) {
		t.Errorf("Kinds has %v, the types of steps are %v", kinds, want)
	}
}
