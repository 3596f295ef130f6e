// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package marked

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/test/tree"
)

// module begins the paths of the module's packages, and marker is the folder of the package that marks tests.
const (
	module = "github.com/alioth-net/alioth/"
	marker = "test/soak"
)

// function is a function, or a method, of the package in a folder. The source alone does not have
// the type of a value, so methods of one name in one package count as one. The function without a
// name stands for the variables of the package.
type function struct {
	folder, name string
	method       bool
}

func (f function) String() string {
	if f.name == "" {
		return "./" + f.folder + ": a variable"
	}
	return "./" + f.folder + ": " + f.name
}

// graph has the functions of a module.
type graph struct {
	// users has, for each function, those that use it.
	users map[function][]function
	// tests has the tests, and for each folder its tests below the function without a name.
	tests map[function][]Test
	// calls are the functions that use the marker themselves.
	calls []function
}

func read(files fs.FS) (*graph, error) {
	g := &graph{users: map[function][]function{}, tests: map[function][]Test{}}
	err := fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return tree.Enter(files, file, entry)
		}
		if !strings.HasSuffix(file, ".go") || path.Dir(file) == marker {
			return nil
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		return g.add(file, parsed)
	})
	if err != nil {
		return nil, fmt.Errorf("read the source of tests: %w", err)
	}
	return g, nil
}

// add notes what the functions and the variables of a file use.
func (g *graph) add(file string, parsed *ast.File) error {
	s := source{graph: g, folder: path.Dir(file), imports: importsOf(parsed)}
	for _, decl := range parsed.Decls {
		by := function{folder: s.folder}
		if f, ok := decl.(*ast.FuncDecl); ok {
			by.name, by.method = f.Name.Name, f.Recv != nil
			if err := s.declare(by, f, strings.HasSuffix(file, "_test.go")); err != nil {
				return fmt.Errorf("%s: %w", by, err)
			}
		}
		s.uses(by, decl)
	}
	return nil
}

// declare notes a function that is a test.
func (s *source) declare(f function, decl *ast.FuncDecl, inTests bool) error {
	part, err := s.partOf(decl)
	if err != nil {
		return err
	}
	if !inTests || !isTest(decl) {
		if part != "" {
			return errors.New("only a test itself may call soak.Part")
		}
		return nil
	}
	t, all := Test{Package: "./" + s.folder, Name: f.name, Part: part}, function{folder: f.folder}
	s.tests[f], s.tests[all] = []Test{t}, append(s.tests[all], t)
	return nil
}

// isTest reports whether Go runs a function as a test.
func isTest(f *ast.FuncDecl) bool {
	if f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || len(f.Type.Params.List) != 1 {
		return false
	}
	pointer, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := pointer.X.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "T"
}

// importsOf returns the folders of the packages of the module that a file imports, by the names
// that the file has for them.
func importsOf(file *ast.File) map[string]string {
	imports := map[string]string{}
	for _, spec := range file.Imports {
		text, err := strconv.Unquote(spec.Path.Value)
		folder, ok := strings.CutPrefix(text, module)
		if err != nil || !ok {
			continue
		}
		name := path.Base(folder)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = folder
	}
	return imports
}

// reach returns some functions, and those that use them, themselves or through others.
func (g *graph) reach(from ...function) map[function]bool {
	reached, open := map[function]bool{}, slices.Clone(from)
	for len(open) > 0 {
		next := open[len(open)-1]
		open = open[:len(open)-1]
		if !reached[next] {
			reached[next] = true
			open = append(open, g.users[next]...)
		}
	}
	return reached
}

func (g *graph) reachesTest(call function) bool {
	for f := range g.reach(call) {
		if len(g.tests[f]) > 0 {
			return true
		}
	}
	return false
}
