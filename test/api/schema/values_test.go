// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"context"
	_ "embed" // for values.yaml
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/helm"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/test/api/samples"
)

//go:embed values.yaml
var valuesText []byte

// fieldsRow is a row of values.yaml, which explains its fields.
type fieldsRow struct {
	Fields  []string          `json:"fields"`
	Valid   any               `json:"valid"`
	Sort    string            `json:"sort"`
	Wrong   []any             `json:"wrong"`
	Accepts map[string]string `json:"accepts"`
	Free    string            `json:"free"`
}

// rowsOfFields returns the rows by "<kind> <path>".
func rowsOfFields(t *testing.T) map[string]fieldsRow {
	t.Helper()
	var list []fieldsRow
	if err := yaml.UnmarshalStrict(valuesText, &list); err != nil {
		t.Fatal(err)
	}
	rows := map[string]fieldsRow{}
	for _, row := range list {
		if (row.Sort == "") == (row.Free == "") {
			t.Errorf("%v needs a sort, or a reason to be free", row.Fields)
		}
		for _, field := range row.Fields {
			if _, twice := rows[field]; twice {
				t.Errorf("%s has two rows", field)
			}
			rows[field] = row
		}
	}
	return rows
}

// schemaFields calls visit for the schema of each value that an object of a definition has
// outside of its metadata and status.
func schemaFields(schema *apiextensionsv1.JSONSchemaProps, path string, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	switch {
	case len(schema.Properties) > 0:
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			if path == "" && slices.Contains([]string{"metadata", "apiVersion", "kind", "status"}, name) {
				continue
			}
			property := schema.Properties[name]
			schemaFields(&property, strings.TrimPrefix(path+"."+name, "."), visit)
		}
	case schema.Items != nil:
		schemaFields(schema.Items.Schema, path+"[]", visit)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		schemaFields(schema.AdditionalProperties.Schema, path+"[*]", visit)
	default:
		visit(path, schema)
	}
}

// fieldsOfKinds returns the schema of each field of each kind by "<kind> <path>".
func fieldsOfKinds(t *testing.T) map[string]*apiextensionsv1.JSONSchemaProps {
	t.Helper()
	names, err := fs.Glob(helm.CRDs(), "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	all := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, name := range names {
		text, err := fs.ReadFile(helm.CRDs(), name)
		if err != nil {
			t.Fatal(err)
		}
		crd := new(apiextensionsv1.CustomResourceDefinition)
		if err := yaml.Unmarshal(text, crd); err != nil {
			t.Fatal(err)
		}
		for i := range crd.Spec.Versions {
			schemaFields(crd.Spec.Versions[i].Schema.OpenAPIV3Schema, "", func(path string, schema *apiextensionsv1.JSONSchemaProps) {
				all[crd.Spec.Names.Kind+" "+path] = schema
			})
		}
	}
	return all
}

// rowOf returns the row of a field. Without one, it returns the row of the free field that the
// field is a part of.
func rowOf(rows map[string]fieldsRow, field string) (string, bool) {
	if _, ok := rows[field]; ok {
		return field, true
	}
	for at, row := range rows {
		if rest, ok := strings.CutPrefix(field, at); ok && row.Free != "" && strings.ContainsAny(rest[:1], ".[") {
			return at, true
		}
	}
	return "", false
}

// TestValuesTable_EachField_Listed compares the table with the definitions.
func TestValuesTable_EachField_Listed(t *testing.T) {
	rows, used := rowsOfFields(t), map[string]bool{}
	for _, field := range slices.Sorted(maps.Keys(fieldsOfKinds(t))) {
		at, ok := rowOf(rows, field)
		if !ok {
			t.Errorf("%s has no row in values.yaml: which values does it refuse?", field)
		}
		used[at] = true
	}
	for _, field := range slices.Sorted(maps.Keys(rows)) {
		if !used[field] {
			t.Errorf("%s of values.yaml is no field of a kind", field)
		}
	}
}

// neighbours are wrong values beside a valid one.
func neighbours(row fieldsRow, valid any, schema *apiextensionsv1.JSONSchemaProps) []any {
	text, _ := valid.(string)
	list := slices.Clone(row.Wrong)
	if schema.MaxLength != nil {
		list = append(list, strings.Repeat("a", int(*schema.MaxLength)+1))
	}
	switch row.Sort {
	case "range":
		list = append(list, besideRange(text)...)
	case "address":
		list = append(list, "0.0.0.0", "255.255.255.255", "224.0.0.1", "127.0.0.1", "::ffff:"+text, text+"%eth0", text+"/32", "0"+text, "host", "")
	case "mac":
		list = append(list, "01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "02:00:00:00:00", text+":01", strings.ReplaceAll(text, ":", ""))
	case "label", "name":
		list = append(list, "", strings.ToUpper(text)+"A", text+"_a", "-"+text, text+"-", text+"/a", " "+text, text+"ä", text+"\n", strings.Repeat("a", 254))
	case "word":
		list = append(list, text+"x", "No"+text)
	case "text":
		list = append(list, text+"\n", text+"\x1b[31m", text+"\u202e", " ")
	case "truth":
		list = append(list, "yes", int64(1))
	case "number":
		if schema.Minimum != nil {
			list = append(list, int64(*schema.Minimum)-1)
		}
		if schema.Maximum != nil {
			list = append(list, int64(*schema.Maximum)+1)
		}
		list = append(list, "5")
	}
	return slices.DeleteFunc(list, func(value any) bool { return row.Accepts[fmt.Sprint(value)] != "" })
}

// besideRange are wrong values beside a range without host bits.
func besideRange(text string) []any {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return nil
	}
	address := prefix.Addr()
	return []any{
		fmt.Sprintf("%s/%d", address.Next(), prefix.Bits()), fmt.Sprintf("%s/%d", address, address.BitLen()+1), fmt.Sprintf("%s/-1", address),
		fmt.Sprintf("%s/0%d", address, prefix.Bits()), fmt.Sprintf("::ffff:%s/%d", address, prefix.Bits()+96), fmt.Sprintf("%s%%eth0/%d", address, prefix.Bits()),
		address.String(), address.String() + "/", "range", "",
	}
}

// with returns a sample with a value at the path of a field. It makes the missing fields on the
// way.
func with(sample *unstructured.Unstructured, path string, value any) *unstructured.Unstructured {
	object := sample.DeepCopy()
	object.Object = place(object.Object, strings.Split(strings.NewReplacer("[]", ".[]", "[*]", ".[*]").Replace(path), "."), value).(map[string]any)
	if name := names[sample.GetKind()]; name != nil {
		spec, _ := object.Object["spec"].(map[string]any)
		object.SetName(name(spec))
	}
	return object
}

func place(in any, steps []string, value any) any {
	if len(steps) == 0 {
		return value
	}
	if steps[0] == "[]" {
		list, _ := in.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		return append([]any{place(list[0], steps[1:], value)}, list[1:]...)
	}
	fields, _ := in.(map[string]any)
	if fields == nil {
		fields = map[string]any{}
	}
	key := steps[0]
	if key == "[*]" {
		key = "192.0.2.0/24" // a destination of routes, and a key of nothing else
		if keys := slices.Sorted(maps.Keys(fields)); len(keys) > 0 {
			key = keys[0]
		}
	}
	fields[key] = place(fields[key], steps[1:], value)
	return fields
}

// valueAt returns the value at the path of a field, or nil.
func valueAt(in any, path string) any {
	for step := range strings.SplitSeq(strings.NewReplacer("[]", ".[]", "[*]", ".[*]").Replace(path), ".") {
		switch at := in.(type) {
		case map[string]any:
			if step == "[*]" && len(at) > 0 {
				step = slices.Min(slices.Collect(maps.Keys(at)))
			}
			in = at[step]
		case []any:
			if len(at) == 0 {
				return nil
			}
			in = at[0]
		default:
			return nil
		}
	}
	return in
}

// number64 returns a number as objects have it.
func number64(value any) any {
	if number, ok := value.(float64); ok {
		return int64(number)
	}
	return value
}

// TestField_WrongValueBesideValid_RefusedByName sets each field to a valid value, which is
// accepted, and to each wrong value beside it. The wrong value is refused with the name of the
// field.
func TestField_WrongValueBesideValid_RefusedByName(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kinds.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := client.New(server.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: named("customer")}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	create := func(object *unstructured.Unstructured) error {
		return admin.Create(context.WithoutCancel(t.Context()), object, client.DryRunAll)
	}
	rows, fields := rowsOfFields(t), fieldsOfKinds(t)
	tried := map[string]bool{}
	var work errgroup.Group
	work.SetLimit(6)
	for _, sample := range samples.All(t) {
		for _, field := range slices.Sorted(maps.Keys(rows)) {
			kind, path, _ := strings.Cut(field, " ")
			row := rows[field]
			if kind != sample.GetKind() || row.Free != "" {
				continue
			}
			valid := number64(row.Valid)
			if valid == nil {
				valid = valueAt(sample.Object, path)
			}
			if valid == nil {
				continue // the kind of this group lacks the field
			}
			tried[field] = true
			work.Go(func() error {
				if err := create(with(sample, path, valid)); err != nil {
					t.Errorf("%s of %s: the valid value %v is refused: %v", field, sample.GroupVersionKind().Group, valid, err)
					return nil
				}
				for _, wrong := range neighbours(row, valid, fields[field]) {
					err := create(with(sample, path, number64(wrong)))
					switch last := path[strings.LastIndex(path, ".")+1:]; {
					case err == nil:
						t.Errorf("%s accepts %.40q beside %v", field, fmt.Sprint(wrong), valid)
					case !strings.Contains(err.Error(), strings.TrimRight(last, "[]*")):
						t.Errorf("%s: the refusal of %.40q does not name the field: %.300v", field, fmt.Sprint(wrong), err)
					}
				}
				return nil
			})
		}
	}
	_ = work.Wait()
	for field, row := range rows {
		if row.Free == "" && !tried[field] {
			t.Errorf("%s has no valid value, in its row or the sample of its kind", field)
		}
	}
}
