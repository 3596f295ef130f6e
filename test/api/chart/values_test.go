// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/cmd/aliothctl/explain"
	"github.com/alioth-net/alioth/docs/reference"
	"github.com/alioth-net/alioth/test/api/chart"
)

// jsonSchema has the parts of values.schema.json that the tests read.
type jsonSchema struct {
	Ref         string                 `json:"$ref"`
	Definitions map[string]*jsonSchema `json:"definitions"`
	Properties  map[string]*jsonSchema `json:"properties"`
	Minimum     *int64                 `json:"minimum"`
	Maximum     *int64                 `json:"maximum"`
	MaxLength   *int                   `json:"maxLength"`
	UniqueItems bool                   `json:"uniqueItems"`
}

// chartValues returns the schema of each value by its path.
func chartValues(t *testing.T) map[string]*jsonSchema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "helm", "alioth", "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all jsonSchema
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]*jsonSchema{}
	var walk func(path string, schema *jsonSchema)
	walk = func(path string, schema *jsonSchema) {
		if len(schema.Properties) == 0 {
			if name, ok := strings.CutPrefix(schema.Ref, "#/definitions/"); ok && all.Definitions[name] != nil {
				schema = all.Definitions[name]
			}
			found[path] = schema
			return
		}
		for name, property := range schema.Properties {
			walk(strings.TrimPrefix(path+"."+name, "."), property)
		}
	}
	walk("", &all)
	return found
}

// refusedRow is a row of testdata/refused.yaml, which explains its fields.
type refusedRow struct {
	Values []string          `json:"values"`
	Sort   string            `json:"sort"`
	Wrong  []any             `json:"wrong"`
	Checks map[string]string `json:"checks"`
	Free   string            `json:"free"`
}

func refusedRows(t *testing.T) []refusedRow {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "refused.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []refusedRow
	if err := yaml.UnmarshalStrict(text, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestRefusedTable_EachChartValue_Listed compares the table with the schema, and the schema with
// values.yaml, which documents each value.
func TestRefusedTable_EachChartValue_Listed(t *testing.T) {
	known, rows := chartValues(t), map[string]bool{}
	for _, row := range refusedRows(t) {
		if (row.Sort == "") == (row.Free == "") {
			t.Errorf("%v needs a sort, or a reason to be free", row.Values)
		}
		for _, path := range row.Values {
			if rows[path] {
				t.Errorf("%s has two rows", path)
			}
			rows[path] = true
			if known[path] == nil {
				t.Errorf("%s of refused.yaml is no value of the chart", path)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "helm", "alioth", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var defaults map[string]any
	if err := yaml.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(known)) {
		if !rows[path] {
			t.Errorf("%s has no row in refused.yaml: which values does it refuse?", path)
		}
		if in := any(defaults); path != "global" {
			for step := range strings.SplitSeq(path, ".") {
				fields, _ := in.(map[string]any)
				in = fields[step]
			}
			if in == nil {
				t.Errorf("%s is not in values.yaml", path)
			}
		}
	}
}

// wrongValues returns the values that values.schema.json refuses: the values of the row, and the
// values that its sort makes.
func wrongValues(row refusedRow, schema *jsonSchema) []any {
	list := slices.Clone(row.Wrong)
	switch row.Sort {
	case "switch":
		list = append(list, "yes", 1, []any{})
	case "choice":
		list = append(list, "other", 1)
	case "port":
		list = append(list, 0, -1, 65536, "6443", 1.5)
	case "number":
		list = append(list, "5", 1.5)
		if schema.Minimum != nil {
			list = append(list, *schema.Minimum-1)
		}
		if schema.Maximum != nil {
			list = append(list, *schema.Maximum+1)
		}
	case "text":
		list = append(list, 1, "a b", "a\n")
		if schema.MaxLength != nil {
			list = append(list, strings.Repeat("a", *schema.MaxLength+1))
		}
	case "list":
		list = append(list, "text", []any{1})
	case "ranges":
		list = append(list, "10.0.0.0/16", []any{1}, []any{"10.0.0.0/16", "10.0.0.0/16"})
		for _, one := range []string{"10.0.0.1", "10.0.0.0/33", "fd00::/129", "256.0.0.0/16", "010.0.0.0/16", "10.0.0.0/08", "10.0.0/16", "::ffff:10.0.0.0/112", "FD00::/64", "range", ""} {
			list = append(list, []any{one})
		}
	case "labels":
		list = append(
			list,
			map[string]any{"a b": "x"},
			map[string]any{"a": "b c"},
			map[string]any{"a": 1},
			map[string]any{"a/b/c": "x"},
			map[string]any{"a": strings.Repeat("b", 64)},
		)
		fallthrough
	case "map":
		list = append(list, "text", []any{})
	}
	return list
}

// TestChartValue_Wrong_Refused sets each value to each wrong one, as many as possible at a time:
// helm names all values that the schema refuses.
func TestChartValue_Wrong_Refused(t *testing.T) {
	helm, known := chart.New(t, root, nil), chartValues(t)
	wrong := map[string][]any{}
	rounds := 0
	for _, row := range refusedRows(t) {
		for _, path := range row.Values {
			if row.Free == "" {
				wrong[path] = wrongValues(row, known[path])
				rounds = max(rounds, len(wrong[path]))
			}
		}
	}
	for round := range rounds {
		values, tried := map[string]any{}, map[string]any{}
		for path, list := range wrong {
			if round < len(list) {
				setValue(values, strings.Split(path, "."), list[round])
				tried[path] = list[round]
			}
		}
		text, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "values.json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = helm.Run(t.Context(), "template", chart.Release, "CHART", "--values", file)
		expectExplained(t, err)
		for _, path := range slices.Sorted(maps.Keys(tried)) {
			if at := "at '/" + strings.ReplaceAll(path, ".", "/"); err == nil || !strings.Contains(err.Error(), at+"'") && !strings.Contains(err.Error(), at+"/") {
				t.Errorf("%s accepts %.60q", path, fmt.Sprint(tried[path]))
			}
		}
	}
	t.Logf("%d values in %d rounds", len(wrong), rounds)
}

// problem is a line of Helm's error about a value.
var problem = regexp.MustCompile(`(?m)^ *- at '[^']*': (.*)$`)

// expectExplained requires that aliothctl explain knows each message of Helm.
func expectExplained(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	product := explain.All(reference.Folder, reference.Pages()...)
	for _, found := range problem.FindAllStringSubmatch(err.Error(), -1) {
		if found[1] != "validation failed" && len(explain.Find(product, found[0])) == 0 {
			t.Errorf("docs/reference/refusals.md has no row for %q", found[1])
		}
	}
}

func setValue(in map[string]any, path []string, value any) {
	for _, step := range path[:len(path)-1] {
		if in[step] == nil {
			in[step] = map[string]any{}
		}
		in = in[step].(map[string]any)
	}
	in[path[len(path)-1]] = value
}

// TestChartValues_Contradictory_RefusedByName requires a message that names the value.
func TestChartValues_Contradictory_RefusedByName(t *testing.T) {
	helm := chart.New(t, root, nil)
	var work errgroup.Group
	work.SetLimit(4)
	for _, row := range refusedRows(t) {
		for set, want := range row.Checks {
			work.Go(func() error {
				if _, err := helm.Template(t.Context(), "--set", set); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: got %v, want an error with %q", set, err, want)
				}
				return nil
			})
		}
	}
	_ = work.Wait()
}
