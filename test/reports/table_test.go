// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// readme has the table of the cases behind the line tableBegins.
const (
	readme      = "README.md"
	tableBegins = "<!-- The table is written by: go test ./test/reports -run TestREADME_Table_MatchesCases -update -->\n"
)

var update = flag.Bool("update", false, "write the table of "+readme+" instead of comparing it")

func TestREADME_Table_MatchesCases(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(text), tableBegins)
	if !found {
		t.Fatalf("%s lacks the line %q", readme, tableBegins)
	}
	want := head + tableBegins + table()
	if *update {
		if err := os.WriteFile(readme, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !*update && want != string(text) {
		t.Errorf("%s is not as the cases are: run: go test ./test/reports -run %s -update", readme, t.Name())
	}
}

// table has a row for each report.
func table() string {
	var text strings.Builder
	text.WriteString("| source | kind | input | right value | test |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range sorted() {
		test := r.Test
		if r.Run != nil {
			test = r.Name
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", link(r.Source), r.Kind, r.Input, r.Want, test)
	}
	return text.String()
}

// link makes a public source a link.
func link(source string) string {
	if project, number, public := strings.Cut(source, "#"); public {
		return fmt.Sprintf("[%s](https://github.com/%s/issues/%s)", source, project, number)
	}
	return source
}

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	sourceForm = regexp.MustCompile(`^([\w.-]+/[\w.-]+#[1-9][0-9]*|own trial, [a-z0-9/-]+)$`)
)

func TestReports_Each_Complete(t *testing.T) {
	seen := map[string]string{}
	for _, r := range sorted() {
		t.Run(r.Name, func(t *testing.T) {
			if other, twice := seen[r.Name]; twice {
				t.Errorf("%s has this name too", other)
			}
			seen[r.Name] = r.Source
			if !nameForm.MatchString(r.Name) || !sourceForm.MatchString(r.Source) || r.Kind == "" {
				t.Errorf("%q, %q, %q: want a name with dashes, project#number, and a kind", r.Name, r.Source, r.Kind)
			}
			for _, sentence := range []string{r.Input, r.Want} {
				if !strings.HasSuffix(sentence, ".") || strings.ContainsAny(sentence, "|\n") {
					t.Errorf("%q: want sentences for one cell of a table", sentence)
				}
			}
			if (r.Run == nil) == (r.Test == "") {
				t.Error("want either Run or Test")
			}
			if r.Test != "" {
				expectTest(t, r.Test)
			}
		})
	}
}

// expectTest requires that the folder has the test, and that its source has the beginning of
// the subtest's name.
func expectTest(t *testing.T, test string) {
	t.Helper()
	folder, function, found := strings.Cut(test, " ")
	function, subtest, _ := strings.Cut(function, "/")
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
	if err != nil || !found {
		t.Fatalf("%q: want a folder, a space and the name of a test: %v", test, err)
	}
	set, hasFunction, hasSubtest := token.NewFileSet(), false, subtest == ""
	for _, path := range files {
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		hasFunction = hasFunction || slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && f.Name.Name == function
		})
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, err := strconv.Unquote(literal.Value)
				hasSubtest = hasSubtest || err == nil && text == subtest
			}
			return true
		})
	}
	if !hasFunction || !hasSubtest {
		t.Errorf("%s has no test %s with subtest %q", folder, function, subtest)
	}
}

// TestTemplate_Written_IsCase reads the template as `make report` writes it.
func TestTemplate_Written_IsCase(t *testing.T) {
	text, err := os.ReadFile("template.txt")
	if err != nil {
		t.Fatal(err)
	}
	source := strings.ReplaceAll(string(text), "CASE", "udp-after-restart")
	if _, err := parser.ParseFile(token.NewFileSet(), "udpafterrestart_test.go", source, 0); err != nil {
		t.Error(err)
	}
	for _, field := range []string{"Name: \"udp-after-restart\"", "Source:", "Kind:", "Input:", "Want:", "Run:"} {
		if !strings.Contains(source, field) {
			t.Errorf("the template lacks %q", field)
		}
	}
}
