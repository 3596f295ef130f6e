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
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// rowKinds are the types of the rows of all tables below store, such as *store.VPC. Rows
// that belong to their package alone have types of lower case.
func rowKinds(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../../../store/*.go")
	below, errBelow := filepath.Glob("../../../store/rows/*/*.go")
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
		if err == nil && kind.OnNode == nil && len(kind.Of) == 0 {
			found[reflect.TypeOf(row).String()] = true
		}
	}
	return found
}

func TestPlanParts_EachRowKind_DeclaredOrIrrelevant(t *testing.T) {
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

func TestPlanParts_UndeclaredRow_AllStale(t *testing.T) {
	type unheardOf struct{}
	for _, c := range []struct {
		row  any
		want bool
	}{{&unheardOf{}, true}, {&store.RollCall{}, false}, {nil, false}} {
		s := newStale()
		(&comparison{stale: s, in: testInput(), here: map[string]bool{"default": true}}).row(c.row)
		if got := !reflect.DeepEqual(s, newStale()); got != c.want || got && (!s.node || !s.services.All || !s.vpcs["default"]) {
			t.Errorf("%T makes stale: %+v", c.row, s)
		}
	}
}

// TestPlanParts_RandomChanges_MissingDeclarationFound takes away each declaration by itself: a
// planner without it plans other than Build after one of the random steps.
func TestPlanParts_RandomChanges_MissingDeclarationFound(t *testing.T) {
	var byRows, byVerdicts []missing
	for kind, declared := range dependencies {
		for at := range declared {
			if kind == reflect.TypeFor[*scaled.Endpoint]() {
				byVerdicts = append(byVerdicts, missing{kind: kind, at: at})
			} else {
				byRows = append(byRows, missing{kind: kind, at: at})
			}
		}
	}
	for seed := range uint64(24) {
		r := &randomWorld{world: tenants(t), Rand: rand.New(rand.NewPCG(seed, 1))}
		byRows = unfound(byRows, changing{
			step: func() { r.step(t) },
			anew: func() whole { return r.build(r.adapt) },
			kept: func(p *Planner) whole { return together(r.plan(p, r.adapt)) },
		})
		f := newFollowed(t, seed)
		byVerdicts = unfound(byVerdicts, changing{
			step: func() { f.step(t); f.plans(t) },
			anew: func() whole { return f.node.build(f.follows) },
			kept: func(p *Planner) whole { return together(f.node.plan(p, f.follows)) },
		})
	}
	for _, m := range append(byRows, byVerdicts...) {
		t.Errorf("declaration %d on %v can be left out, and no random change finds it", m.at, m.kind)
	}
}

// missing is a declaration that a planner goes without.
type missing struct {
	kind    reflect.Type
	at      int
	planner *Planner
}

// plan plans without the declaration.
func (m missing) plan(kept func(*Planner) whole) whole {
	declared := dependencies[m.kind]
	defer func() { dependencies[m.kind] = declared }()
	dependencies[m.kind] = slices.Delete(slices.Clone(declared), m.at, m.at+1)
	return kept(m.planner)
}

// changing is a world that changes step by step, with two plans: one is made from nothing, and
// one by a planner that has planned after each step.
type changing struct {
	step func()
	anew func() whole
	kept func(*Planner) whole
}

// unfound returns the declarations whose absence no step of a new world shows. All of them
// share the world and the plans that are made anew, which take longest.
func unfound(list []missing, world changing) []missing {
	for i := range list {
		list[i].planner = &Planner{}
	}
	for range 600 {
		if len(list) == 0 {
			break
		}
		world.step()
		anew := world.anew()
		list = slices.DeleteFunc(list, func(m missing) bool { return !reflect.DeepEqual(anew, m.plan(world.kept)) })
	}
	return list
}

func testInput() Input { return Input{Config: testConfig()} }
