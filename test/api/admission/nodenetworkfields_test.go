// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	nmtarget "github.com/alioth-net/alioth/cnid/nmstate/target"
)

const migration = "migration-from-kubernetes-nmstate.md"

var quoted = regexp.MustCompile("`([^`]+)`")

// rowsOf are the rows of the table below a heading of the guide: the first column, and the
// words in quotes of the second one.
func rowsOf(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	_, text, found := strings.Cut(readGuide(t, migration), "\n### "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n#")
	for line := range strings.SplitSeq(text, "\n") {
		columns := strings.Split(line, "|")
		const first, second, least = 1, 2, 4
		if len(columns) < least || !strings.Contains(columns[second], "`") {
			continue
		}
		row := []string{strings.TrimSpace(columns[first])}
		for _, word := range quoted.FindAllStringSubmatch(columns[second], -1) {
			row = append(row, word[1])
		}
		rows = append(rows, row)
	}
	if !found || len(rows) == 0 {
		t.Fatalf("%s has no table %q", migration, heading)
	}
	return rows
}

// pathsOf are the paths of fields that rows name. A row without a path is of the document.
func pathsOf(rows [][]string) (paths []string) {
	for _, row := range rows {
		in := ""
		if path := quoted.FindStringSubmatch(row[0]); path != nil {
			in = path[1] + "."
		}
		for _, field := range row[1:] {
			paths = append(paths, in+field)
		}
	}
	slices.Sort(paths)
	return paths
}

// jsonPaths adds the paths of the fields of a type.
func jsonPaths(paths map[string]bool, in string, of reflect.Type) {
	switch of.Kind() {
	case reflect.Pointer:
		jsonPaths(paths, in, of.Elem())
	case reflect.Slice:
		jsonPaths(paths, in+"[]", of.Elem())
	case reflect.Struct:
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			path := strings.TrimPrefix(in+"."+name, ".")
			paths[path] = true
			jsonPaths(paths, path, field.Type)
		}
	}
}

func TestTheTableOfSupportedFieldsHasThoseOfTheDocument(t *testing.T) {
	fields := map[string]bool{}
	jsonPaths(fields, "", reflect.TypeFor[document.State]())
	want := slices.Sorted(maps.Keys(fields))
	got := pathsOf(rowsOf(t, "Supported fields"))
	for _, path := range got {
		if !fields[path] {
			t.Errorf("%s is no field of the document", path)
		}
	}
	for _, path := range want {
		if !slices.Contains(got, path) {
			t.Errorf("%s is not in the table", path)
		}
	}
}

func TestTheFieldsOfTheTableOfRefusedOnesAreRefusedWithTheirPaths(t *testing.T) {
	for _, path := range pathsOf(rowsOf(t, "Refused fields")) {
		// 802.1x is the one name with a dot.
		keys := strings.Split(strings.ReplaceAll(path, "802.1x", "802_1x"), ".")
		var value any = "x"
		for _, key := range slices.Backward(keys) {
			name, list := strings.CutSuffix(strings.ReplaceAll(key, "802_1x", "802.1x"), "[]")
			if list {
				value = []any{value}
			}
			value = map[string]any{name: value}
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		at := strings.ReplaceAll(path, "[]", "[0]")
		if _, err := document.ParseJSON(text); err == nil || !strings.Contains(err.Error(), `unknown field "`+at+`"`) {
			t.Errorf("%s: got %v, want an error with the path", path, err)
		}
	}
}

func TestTheTypesOfTheTableAreMadeChangedOrRefused(t *testing.T) {
	current, _ := currentOfGuides(t)
	for _, row := range rowsOf(t, "Types") {
		for _, kind := range row[1:] {
			desired := &document.State{Interfaces: []document.Interface{{Name: "x", Type: kind, State: document.Up}}}
			_, err := nmtarget.Resolve(desired, current)
			refused := err != nil && strings.Contains(err.Error(), "want one of")
			if refused != (row[0] == "refused") || nmtarget.Virtual(kind) != (row[0] == "made and changed") {
				t.Errorf("%s is in the row %q: %v", kind, row[0], err)
			}
		}
	}
}
