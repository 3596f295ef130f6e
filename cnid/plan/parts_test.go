// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
)

// rowKinds are the types of the rows of all tables below store, such as *store.VPC. Rows
// that belong to their package alone have types of lower case.
func rowKinds(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../../store/*.go")
	below, errBelow := filepath.Glob("../../store/*/*.go")
	if err := errors.Join(err, errBelow); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, name := range slices.Concat(files, below) {
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
			generic, named := of.X.(*ast.SelectorExpr)
			row, single := of.Index.(*ast.Ident)
			if named && single && types.ExprString(generic) == "memory.Table" && row.IsExported() {
				found["*"+file.Name.Name+"."+row.Name] = true
			}
			return true
		})
	}
	return found
}

// followedByNoNode are rows of kinds whose descriptors have no part for a node.
func followedByNoNode() map[string]bool {
	found := map[string]bool{}
	for _, kind := range kinds.All() {
		row, err := kind.Row(kind.NewObject())
		if err == nil && !kind.IsFollowed() {
			found[reflect.TypeOf(row).String()] = true
		}
	}
	return found
}

func TestEachKindOfRowIsDeclaredByAPartOrIrrelevant(t *testing.T) {
	declared := map[string]string{}
	for kind := range dependencies {
		declared[kind.String()] = "declared"
	}
	for _, kind := range irrelevant {
		name := kind.String()
		if declared[name] != "" {
			t.Errorf("%s is irrelevant and declared", name)
		}
		declared[name] = "irrelevant"
	}
	rows, elsewhere := rowKinds(t), followedByNoNode()
	if !rows["*store.VPC"] || !rows["*external.Pool"] || len(rows) < 15 {
		t.Fatalf("tables are of %v: some are missing", rows)
	}
	if !elsewhere["*store.VNIClaim"] || elsewhere["*store.VPC"] {
		t.Errorf("no node follows %v", elsewhere)
	}
	for kind := range rows {
		if declared[kind] == "" && !elsewhere[kind] {
			t.Errorf("no part declares that it depends on rows of %s, and they are not irrelevant", kind)
		}
	}
	for kind := range declared {
		if !rows[kind] || elsewhere[kind] {
			t.Errorf("%s is declared, and it is no row of a table that a node follows", kind)
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
		(&comparison{stale: s, in: testInput(), here: map[string]bool{"default": true}}).row(c.row)
		if got := !reflect.DeepEqual(s, newStale()); got != c.want || got && (!s.node || !s.services.all || !s.vpcs["default"]) {
			t.Errorf("%T makes stale: %+v", c.row, s)
		}
	}
}

// TestRandomChangesFindADeclarationThatIsMissing takes away each declaration by itself.
func TestRandomChangesFindADeclarationThatIsMissing(t *testing.T) {
	for kind, declared := range dependencies {
		t.Cleanup(func() { dependencies[kind] = declared })
		for at := range declared {
			dependencies[kind] = slices.Delete(slices.Clone(declared), at, at+1)
			find := differs
			if kind == reflect.TypeFor[*store.ScaledEndpoint]() {
				find = differsByVerdicts
			}
			if !find(t, 24) {
				t.Errorf("declaration %d on %v can be left out, and no random change finds it", at, kind)
			}
		}
		dependencies[kind] = declared
	}
}

// differs reports whether a planner plans other than Build, after one of the random steps
// of so many seeds.
func differs(t *testing.T, seeds uint64) bool {
	t.Helper()
	for seed := range seeds {
		r := &randomWorld{world: tenants(t), Rand: rand.New(rand.NewPCG(seed, 1))}
		planner := &Planner{}
		for range 600 {
			r.step(t)
			if !reflect.DeepEqual(together(r.plan(planner, r.adapt)), r.build(r.adapt)) {
				return true
			}
		}
	}
	return false
}

// differsByVerdicts is differs for a node that follows verdicts.
func differsByVerdicts(t *testing.T, seeds uint64) bool {
	t.Helper()
	for seed := range seeds {
		f := newFollowed(t, seed)
		for range 600 {
			f.step(t)
			if _, kept := f.plans(t); !reflect.DeepEqual(kept, f.node.build(f.follows)) {
				return true
			}
		}
	}
	return false
}

func testInput() Input { return Input{Config: testConfig()} }
