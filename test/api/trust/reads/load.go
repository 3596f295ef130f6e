// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Program is the source of one module that some commands are built of.
type Program struct {
	module   string
	files    *token.FileSet
	packages []*source
}

// source is one package of the module.
type source struct {
	path  string
	types *types.Package
	info  *types.Info
	files []*ast.File
}

// Package is one package of the module, for other analyses of the same source.
type Package struct {
	Types *types.Package
	Info  *types.Info
	// Files have no generated ones.
	Files   []*ast.File
	program *Program
}

// InModule reports whether a package is one of the same module.
func (p Package) InModule(other *types.Package) bool { return p.program.inModule(other) }

// Packages returns the packages of the module, each after those that it imports.
func (p *Program) Packages() iter.Seq[Package] {
	return func(yield func(Package) bool) {
		for _, s := range p.packages {
			if !yield(Package{s.types, s.info, s.files, p}) {
				return
			}
		}
	}
}

// Place returns the file of a position below the module's folder, with its line.
func (p *Program) Place(pos token.Pos) string { return p.place(pos) }

// listed is the output of the go command about a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	ImportMap               map[string]string
	Module                  *struct{ Path string }
}

// Load reads the packages of a module that the patterns name, and all packages of the module that
// these import. dir is the folder of the module.
func Load(ctx context.Context, dir, module string, patterns ...string) (*Program, error) {
	list, err := packagesOf(ctx, dir, patterns)
	if err != nil {
		return nil, err
	}
	p := &Program{module: module, files: token.NewFileSet()}
	exports, own := map[string]string{}, map[string]*types.Package{}
	for _, l := range list {
		exports[l.ImportPath] = l.Export
	}
	others := importer.ForCompiler(
		p.files,
		"gc",
		func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) },
	)
	for _, l := range list { // a package comes after those that it imports
		if l.Module == nil || l.Module.Path != module {
			continue
		}
		s, err := p.check(l, importFunc(func(path string) (*types.Package, error) {
			if mapped := l.ImportMap[path]; mapped != "" {
				path = mapped
			}
			if own[path] != nil {
				return own[path], nil
			}
			return others.Import(path)
		}))
		if err != nil {
			return nil, err
		}
		own[l.ImportPath] = s.types
		p.packages = append(p.packages, s)
	}
	return p, nil
}

func packagesOf(ctx context.Context, dir string, patterns []string) ([]listed, error) {
	args := append(
		[]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,ImportMap,Module", "--"},
		patterns...)
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w: %s", err, problems.String())
	}
	var list []listed
	decoder := json.NewDecoder(bytes.NewReader(output))
	for {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode the list of packages: %w", err)
		}
		list = append(list, l)
	}
}

// importFunc is a types.Importer.
type importFunc func(path string) (*types.Package, error)

// Import returns the package of a path.
func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }

// check parses a package and finds its types. Generated code copies and registers objects, and
// decides nothing: its bodies are not scanned.
func (p *Program) check(l listed, imports types.Importer) (*source, error) {
	s := &source{path: l.ImportPath, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Instances: map[*ast.Ident]types.Instance{},
		Implicits: map[ast.Node]types.Object{},
	}}
	var all []*ast.File
	for _, name := range l.GoFiles {
		file, err := parser.ParseFile(p.files, filepath.Join(l.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", l.ImportPath, err)
		}
		all = append(all, file)
		if !ast.IsGenerated(file) {
			s.files = append(s.files, file)
		}
	}
	var err error
	if s.types, err = (&types.Config{Importer: imports}).Check(l.ImportPath, p.files, all, s.info); err != nil {
		return nil, fmt.Errorf("check the types of %s: %w", l.ImportPath, err)
	}
	return s, nil
}

// inModule reports whether a package is one of the program's module.
func (p *Program) inModule(pkg *types.Package) bool {
	return pkg != nil && (pkg.Path() == p.module || strings.HasPrefix(pkg.Path(), p.module+"/"))
}

// fileOf returns the file of a position below the module's folder.
func (p *Program) fileOf(pos token.Pos) string {
	name, _, _ := strings.Cut(p.place(pos), ":")
	return name
}

// place returns the file of a position below the module's folder, with its line.
func (p *Program) place(pos token.Pos) string {
	at := p.files.Position(pos)
	for _, s := range p.packages {
		if name, found := strings.CutPrefix(s.path, p.module+"/"); found &&
			strings.HasSuffix(filepath.Dir(at.Filename), "/"+name) {
			return fmt.Sprintf("%s/%s:%d", name, filepath.Base(at.Filename), at.Line)
		}
	}
	return fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line)
}
