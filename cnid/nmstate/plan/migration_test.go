// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// property is a row of the table of properties in docs/migrate/nmstate.md.
type property struct {
	path string
	// here is same, differs or not served.
	here    string
	example string
}

// Where the examples of a section of the guide are in a document.
var wrappers = map[string]string{
	"The document": "%s", "Routes": "{routes: {config: [%s]}}", "Rules": "{route-rules: {config: [%s]}}", "Resolver": "{dns-resolver: {config: %s}}",
}

var (
	tableRow   = regexp.MustCompile("(?m)^\\| (`[^|]+) \\| (same|differs|not served) \\| `([^`]+)` \\|.*\\|$")
	wholeState = regexp.MustCompile(`^(interfaces|routes|dns-resolver): `)
)

// properties are the rows of the table.
func properties(t *testing.T) (rows []property) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/migrate/nmstate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, fields, _ := strings.Cut(string(text), "\n## Fields\n")
	for _, section := range strings.Split(fields, "\n### ") {
		heading, body, _ := strings.Cut(section, "\n")
		wrapper, ok := wrappers[heading]
		if !ok {
			wrapper = "{interfaces: [%s]}"
		}
		for _, row := range tableRow.FindAllStringSubmatch(body, -1) {
			example := fmt.Sprintf(wrapper, row[3])
			if wholeState.MatchString(row[3]) {
				example = "{" + row[3] + "}"
			}
			rows = append(rows, property{strings.ReplaceAll(row[1], "`", ""), row[2], example})
		}
	}
	const least = 200
	if len(rows) < least {
		t.Fatalf("the table has %d rows", len(rows))
	}
	return rows
}

// TestMigrationTable_EachProperty_ServedAsDocumented applies each example on the model of the kernel,
// reaches it, applies it again without a step, and undoes it; or it is refused with its path.
func TestMigrationTable_EachProperty_ServedAsDocumented(t *testing.T) {
	for _, row := range properties(t) {
		t.Run(row.path+" "+row.example, func(t *testing.T) {
			m := exampleHost(t)
			before := m.show()
			if row.here == "not served" {
				refusedWithPath(t, row, before)
				return
			}
			desired := m.read(t, row.example)
			to := resolve(t, desired, before)
			m.apply(t, to)
			containsAll(t, m.show(), withRouting(to.Document))
			if again := plan.Between(m.show(), resolve(t, desired, m.show())); len(again) > 0 {
				t.Fatalf("a second apply has steps:%s", lines(again))
			}
			m.restore(t, before, to)
		})
	}
}

func refusedWithPath(t *testing.T, row property, current *document.State) {
	t.Helper()
	desired, err := document.Parse([]byte(row.example))
	if err == nil {
		_, err = target.Resolve(desired, current)
	}
	path := strings.ReplaceAll(strings.ReplaceAll(row.path, "[]", "[0]"), "options: ", "options.")
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want a refusal of %s", err, path)
	}
}

// read returns a document of an example.
func (m *model) read(t *testing.T, text string) *document.State {
	t.Helper()
	return withRouting(parse(t, text))
}

// withRouting returns a document that has routes and rules, though none. A host does not show
// who made an interface.
func withRouting(s *document.State) *document.State {
	d := *s
	d.Interfaces = slices.Clone(s.Interfaces)
	for n := range d.Interfaces {
		d.Interfaces[n].MadeBy = ""
	}
	if d.Routes == nil {
		d.Routes = &document.Routes{}
	}
	if d.RouteRules == nil {
		d.RouteRules = &document.RouteRules{}
	}
	return &d
}

// TestMigrationTable_DocumentFields_AllListed: each is in a row, and rows that refuse nothing have no
// others. A row refuses a field that is one of the other family.
func TestMigrationTable_DocumentFields_AllListed(t *testing.T) {
	fields, served, there := map[string]bool{}, map[string]bool{}, map[string]bool{}
	leaves(fields, "", reflect.TypeFor[document.State]())
	for _, row := range properties(t) {
		path, option, _ := strings.Cut(row.path, ": ")
		there[path] = true
		if row.here != "not served" && option == "" {
			served[path] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		if !there[path] && !strings.HasPrefix(path, "routes.running[]") {
			t.Errorf("%s is in no row", path)
		}
		delete(served, path)
	}
	for path := range served {
		if !slices.Contains([]string{"interfaces", "routes.running"}, path) {
			t.Errorf("%s has a row and is no field of the document", path)
		}
	}
}

// leaves adds the paths of fields without fields of their own.
func leaves(paths map[string]bool, in string, of reflect.Type) {
	switch of.Kind() {
	case reflect.Pointer:
		leaves(paths, in, of.Elem())
	case reflect.Slice:
		if of.Elem().Kind() != reflect.Struct {
			paths[in] = true
			return
		}
		leaves(paths, in+"[]", of.Elem())
	case reflect.Struct:
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			leaves(paths, strings.TrimPrefix(in+"."+name, "."), field.Type)
		}
	default:
		paths[in] = true
	}
}

// TestMigrationTable_BondOptions_AllListed: those that the engine knows, and no others.
func TestMigrationTable_BondOptions_AllListed(t *testing.T) {
	rows := map[string]string{}
	for _, row := range properties(t) {
		if _, option, ok := strings.Cut(row.path, ": "); ok {
			rows[option] = row.here
		}
	}
	for _, option := range compare.BondOptions() {
		if rows[option] != "same" {
			t.Errorf("%s is %q in the table", option, rows[option])
		}
	}
	known := append(compare.BondOptions(), "num_unsol_na")
	for option, here := range rows {
		if here == "same" && !slices.Contains(known, option) {
			t.Errorf("%s is in the table, and no option", option)
		}
	}
}
