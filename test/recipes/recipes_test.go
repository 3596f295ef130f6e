// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// wanted are subjects that the page has a recipe for, in words of their titles.
var wanted = []string{
	"attachment kind", "DANM network type", "API kind", "field of a VPC", "map", "daemon API",
	"subcommand", "metric", "drop reason", "API group", "state document", "lists its values",
	"setting of interfaces", "outside of a State",
}

func recipes(t *testing.T) []Recipe {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	return Parse(string(page))
}

func TestPage_EachSubject_HasRecipe(t *testing.T) {
	all := recipes(t)
	for _, subject := range wanted {
		if !slices.ContainsFunc(all, func(r Recipe) bool { return strings.Contains(r.Title, subject) }) {
			t.Errorf("ARCHITECTURE.md has no recipe for a new %s", subject)
		}
	}
	for _, r := range all {
		if len(r.Examples) == 0 || len(r.Steps) == 0 {
			t.Errorf("the recipe %q has %d examples and %d steps: it needs a line \"The example is `identifier`\" and a numbered list of files",
				r.Title, len(r.Examples), len(r.Steps))
		}
	}
}

// TestRecipes_Examples_EachPlaceNamed: tests, test data and prose may mention an example anywhere.
// Tables in them count where a step names them.
func TestRecipes_Examples_EachPlaceNamed(t *testing.T) {
	files := texts(t)
	for _, r := range recipes(t) {
		t.Run(r.Title, func(t *testing.T) {
			for _, problem := range problems(r, files) {
				t.Error(problem)
			}
		})
	}
}

// problems returns the places that the recipe lacks, and its paths without the example.
func problems(r Recipe, files map[string]string) (found []string) {
	places := placesOf(r, files)
	for _, file := range places {
		if !mentions(file) && !slices.ContainsFunc(r.Steps, func(s Step) bool { return s.names(file) }) {
			found = append(
				found,
				fmt.Sprintf(
					"%s has the example %s, and no step of the recipe names the file: add it to the recipe in ARCHITECTURE.md, or move the fact to a file that the recipe names",
					file,
					r.found(file, files[file]),
				),
			)
		}
	}
	for _, s := range r.Steps {
		for _, pattern := range s.Paths {
			if !s.Optional && !slices.ContainsFunc(places, func(file string) bool { return Fits(pattern, file) }) {
				found = append(
					found,
					fmt.Sprintf(
						"the recipe names %s, where nothing has the example %s: correct the path, or begin the step with \"If\"",
						pattern,
						strings.Join(r.Examples, ", "),
					),
				)
			}
		}
	}
	return found
}

func (s Step) names(file string) bool {
	return slices.ContainsFunc(s.Paths, func(pattern string) bool { return Fits(pattern, file) })
}

// found returns the identifier that a file or its path has, or "".
func (r Recipe) found(file, text string) string {
	for _, identifier := range r.Examples {
		if Has(text, identifier) || Has(file, identifier) {
			return identifier
		}
	}
	return ""
}

func placesOf(r Recipe, files map[string]string) (places []string) {
	for file, text := range files {
		if r.found(file, text) != "" {
			places = append(places, file)
		}
	}
	slices.Sort(places)
	return places
}

// mentions reports whether a file may mention an example without being a place of it.
func mentions(file string) bool {
	prose := strings.HasSuffix(file, ".md") && !strings.HasPrefix(file, "docs/reference/")
	return prose || strings.HasPrefix(file, "docs/examples/") || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/")
}

// texts returns the text files of the tree by path.
func texts(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for top := range tops {
		err := fs.WalkDir(os.DirFS(root), top, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || path.Ext(file) == ".o" || strings.HasPrefix(file, "test/recipes/") {
				return err
			}
			text, err := os.ReadFile(filepath.Join(root, file))
			files[file] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 2000 {
		t.Errorf("only %d files were read", len(files))
	}
	return files
}

func TestProblems_WrongPage_Found(t *testing.T) {
	const page = heading + `
**A new wheel.** The example is ` + "`Spare`, `SPARE`" + `. Files to touch:
1. ` + "`cnid/<area>/wheel.go`" + `: the wheel
2. ` + "`docs/reference/reasons.md`" + `: its row
3. If it turns: ` + "`cnid/run.go`" + `

## Invariants
1. ` + "`ebpf/other.h`" + `: no step
`
	all := Parse(page)
	if len(all) != 1 || all[0].Title != "A new wheel." || len(all[0].Steps) != 3 {
		t.Fatalf("read %+v", all)
	}
	good := map[string]string{"cnid/car/wheel.go": "a Spare", "docs/reference/reasons.md": "Spare", "docs/tenants/pods.md": "SPARE", "cnid/car/x_test.go": "Spare"}
	for name, c := range map[string]struct {
		file, text, want string
	}{
		"a place without a step":    {"cnid/axle.go", "x.Spare()", "cnid/axle.go has the example Spare"},
		"a place in C":              {"ebpf/src/axle.h", "SPARE,", "ebpf/src/axle.h has the example SPARE"},
		"a longer word":             {"cnid/axle.go", "Spares SPARE_TYRE", ""},
		"a folder of the same name": {"cnid/a/b/wheel.go", "Spare", "cnid/a/b/wheel.go has the example"},
		"a step without its place":  {"docs/reference/reasons.md", "", "the recipe names docs/reference/reasons.md"},
		"an optional step":          {"cnid/run.go", "Spare", ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(good)
			files[c.file] = c.text
			got := strings.Join(problems(all[0], files), "\n")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
