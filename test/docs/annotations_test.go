// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/docs/pages"
)

const keysPage = "docs/reference/annotations.md"

var (
	// key is a name of Kubernetes with a domain.
	key = regexp.MustCompile(`^[a-z0-9-]+(?:\.[a-z0-9-]+)+/[A-Za-z][A-Za-z0-9._-]*$`)
	// trusted is a key in the inventory of reads.
	trusted = regexp.MustCompile(`metadata\.(?:labels|annotations)\[([^]*]+)\]`)
)

// noKeys are constants that look like keys.
var noKeys = map[string]string{
	"alioth.dev/v1":               "the version of the handler in enactments",
	"alioth.dev/uninstalled":      "a selector that no node matches, so nobody sets it",
	"app.kubernetes.io/name":      "a label of the chart's own objects",
	"app.kubernetes.io/component": "the same",
}

// TestKeysPage_EachAnnotationAndLabel_Explained: the page has each key that is a constant of the
// source, and each that the inventory of trust says is read. It has no other keys.
func TestKeysPage_EachAnnotationAndLabel_Explained(t *testing.T) {
	source := keysOfSource(t)
	inventory, err := os.ReadFile(filepath.Join(root, "docs/security/trust.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range trusted.FindAllStringSubmatch(string(inventory), -1) {
		source[found[1]] = "docs/security/trust.md"
	}
	if len(source) < 30 {
		t.Fatalf("%d keys were found, want 30 or more", len(source))
	}
	_, byPath := read(t)
	documented := map[string]bool{}
	for _, span := range byPath[keysPage].Spans {
		documented[span.Text] = true
	}
	for name, where := range source {
		if !documented[name] {
			t.Errorf("%s has the key %s, and %s does not explain it", where, name, keysPage)
		}
	}
	all := allSource(t)
	for name := range documented {
		if key.MatchString(name) && source[name] == "" && !mentions(all, name) {
			t.Errorf("%s explains %s, which no source has", keysPage, name)
		}
	}
}

// keysOfSource returns the constants of the product that are keys, with their files.
func keysOfSource(t *testing.T) map[string]string {
	t.Helper()
	keys := map[string]string{}
	err := pages.Files(root, []string{".go"}, func(name string, content []byte) error {
		if !isProduct(name) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declared := range file.Decls {
			constants, ok := declared.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST {
				continue
			}
			ast.Inspect(constants, func(node ast.Node) bool {
				if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if value, err := strconv.Unquote(literal.Value); err == nil && key.MatchString(value) && noKeys[value] == "" {
						keys[value] = name
					}
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func isProduct(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return (top == "api" || top == "store" || top == "operator" || top == "cnid") && !strings.HasSuffix(name, "_test.go")
}

// allSource returns the text of the product and its chart.
func allSource(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := pages.Files(root, []string{".go", ".yaml", ".tpl"}, func(name string, content []byte) error {
		if isProduct(name) || strings.HasPrefix(name, "helm/") {
			all.Write(content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// mentions reports whether the source has a key, in one piece or as domain and name.
func mentions(source, name string) bool {
	domain, last, _ := strings.Cut(name, "/")
	return strings.Contains(source, name) || strings.Contains(source, `"`+domain+`/"`) && strings.Contains(source, `"`+last+`"`)
}
