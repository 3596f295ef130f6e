// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// comments are the comments of a package.
type comments struct {
	// types is by name, fields by type and field ("Route.IPAddress"), constants by type.
	types, fields map[string]string
	constants     map[string][]constant
}

type constant struct {
	name, comment string
	value         any
}

// readComments reads the files of a package, without its tests.
func readComments(dir string) (comments, error) {
	c := comments{types: map[string]string{}, fields: map[string]string{}, constants: map[string][]constant{}}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		return c, fmt.Errorf("no files in %s: %w", dir, err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return c, err
		}
		for _, decl := range file.Decls {
			if general, ok := decl.(*ast.GenDecl); ok {
				c.declaration(general)
			}
		}
	}
	return c, nil
}

func (c comments) declaration(decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			c.types[spec.Name.Name] = text(spec.Doc, decl.Doc)
			if body, ok := spec.Type.(*ast.StructType); ok {
				c.structure(spec.Name.Name, body)
			}
		case *ast.ValueSpec:
			c.value(spec)
		}
	}
}

// structure adds the comments of fields. A comment for two fields has the names of both.
func (c comments) structure(name string, body *ast.StructType) {
	above := ""
	for _, field := range body.Fields.List {
		comment := text(field.Doc)
		for _, ident := range field.Names {
			if comment == "" && strings.Contains(above, ident.Name) {
				comment = above
			}
			c.fields[name+"."+ident.Name] = comment
		}
		above = comment
	}
}

// value adds a constant that has a type of the package and a literal.
func (c comments) value(spec *ast.ValueSpec) {
	kind, ok := spec.Type.(*ast.Ident)
	if !ok || len(spec.Values) != 1 {
		return
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok {
		return
	}
	one := constant{name: spec.Names[0].Name, comment: text(spec.Doc)}
	if number, err := strconv.Atoi(literal.Value); err == nil {
		one.value = number
	} else if quoted, err := strconv.Unquote(literal.Value); err == nil {
		one.value = quoted
	}
	c.constants[kind.Name] = append(c.constants[kind.Name], one)
}

// text returns the first comment that there is, on one line.
func text(groups ...*ast.CommentGroup) string {
	for _, group := range groups {
		if line := strings.Join(strings.Fields(group.Text()), " "); line != "" {
			return line
		}
	}
	return ""
}
