// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/store"
)

// rowKinds are the types of the rows of all tables of the store, by name. Rows that are the
// store's alone have types of lower case.
func rowKinds(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../../store/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			of, ok := literal.Type.(*ast.IndexExpr)
			if !ok {
				return true
			}
			generic, named := of.X.(*ast.Ident)
			row, single := of.Index.(*ast.Ident)
			if named && single && generic.Name == "table" && row.IsExported() {
				found[row.Name] = true
			}
			return true
		})
	}
	return found
}

func TestEachKindOfRowIsDeclaredByAPartOrIrrelevant(t *testing.T) {
	declared := map[string]string{}
	for kind := range dependencies {
		declared[strings.TrimPrefix(kind.String(), "*store.")] = "declared"
	}
	for _, kind := range irrelevant {
		name := strings.TrimPrefix(kind.String(), "*store.")
		if declared[name] != "" {
			t.Errorf("%s is irrelevant and declared", name)
		}
		declared[name] = "irrelevant"
	}
	kinds := rowKinds(t)
	if !kinds["VPC"] || !kinds["EndpointSlice"] || len(kinds) < 15 {
		t.Fatalf("tables are of %v: some are missing", kinds)
	}
	for kind := range kinds {
		if declared[kind] == "" {
			t.Errorf("no part declares that it depends on rows of %s, and they are not irrelevant", kind)
		}
	}
	for kind := range declared {
		if !kinds[kind] {
			t.Errorf("%s is no row of a table", kind)
		}
	}
}

func TestARowThatNobodyDeclaredMakesAllStale(t *testing.T) {
	type unheardOf struct{}
	for _, c := range []struct {
		row  any
		want bool
	}{{&unheardOf{}, true}, {&store.RollCall{}, false}, {nil, false}} {
		s := newStale()
		(&comparison{stale: s, in: testInput()}).row(c.row)
		if got := !reflect.DeepEqual(s, newStale()); got != c.want || got && (!s.node || !s.services.all || !s.vpcs["default"]) {
			t.Errorf("%T makes stale: %+v", c.row, s)
		}
	}
}

func testInput() Input { return Input{Config: testConfig()} }
