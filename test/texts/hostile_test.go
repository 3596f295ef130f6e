// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package texts_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/test/api/samples"
)

// mark is a character that no text of Alioth has.
const mark = '¤'

// hostile are texts of 256 KiB, and short ones with characters for terminals. Each has marks,
// so that a message shows how much of the text it repeats.
var hostile = map[string]string{
	"long":     strings.Repeat(string(mark), 128<<10),
	"escapes":  strings.Repeat(string(mark)+"\n\x1b[31m", 32<<10),
	"invalid":  strings.Repeat(string(mark)+"\xff\xfe", 64<<10),
	"short":    string(mark) + "\nlevel=ERROR \x1b[31mred",
	"longName": strings.Repeat("a", 200<<10) + string(mark),
}

// leaf is one text of an object.
type leaf struct {
	path string
	set  func(object reflect.Value, text string)
}

// leavesOf returns the texts of a value: strings, raw bytes, elements of lists, and values of
// maps.
func leavesOf(v reflect.Value, path string, find func(reflect.Value) reflect.Value) (list []leaf) {
	switch v.Kind() {
	case reflect.String:
		return []leaf{{path, func(object reflect.Value, text string) { find(object).SetString(text) }}}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return leavesOf(v.Elem(), path, func(o reflect.Value) reflect.Value { return find(o).Elem() })
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if name == "ObjectMeta" {
				list = append(
					list,
					leavesOf(
						v.Field(i).FieldByName("Annotations"),
						path+".Annotations",
						func(o reflect.Value) reflect.Value { return find(o).Field(i).FieldByName("Annotations") },
					)...)
			} else if v.Type().Field(i).IsExported() && name != "TypeMeta" {
				list = append(list, leavesOf(v.Field(i), path+"."+name, func(o reflect.Value) reflect.Value { return find(o).Field(i) })...)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return []leaf{{path, func(object reflect.Value, text string) { find(object).SetBytes([]byte(text)) }}}
		}
		for i := range v.Len() {
			list = append(list, leavesOf(v.Index(i), fmt.Sprintf("%s[%d]", path, i), func(o reflect.Value) reflect.Value { return find(o).Index(i) })...)
		}
		if v.Len() == 0 && v.Type().Elem().Kind() == reflect.String {
			list = append(list, leaf{path + "[]", func(object reflect.Value, text string) {
				find(object).Set(reflect.MakeSlice(v.Type(), 1, 1))
				find(object).Index(0).SetString(text)
			}})
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if v.Type().Elem().Kind() == reflect.String {
				list = append(list, leaf{path + "[" + key.String() + "]", func(object reflect.Value, text string) {
					find(object).SetMapIndex(key, reflect.ValueOf(text).Convert(v.Type().Elem()))
				}})
				list = append(list, leaf{path + "[key]", func(object reflect.Value, text string) {
					find(object).SetMapIndex(reflect.ValueOf(text).Convert(v.Type().Key()), v.MapIndex(key))
				}})
			}
		}
	}
	return list
}

// repeats returns the fault of a message that repeats a hostile text.
func repeats(message string) string {
	switch {
	case strings.Count(message, string(mark)) > 128 || strings.Count(message, "a") > 300:
		return fmt.Sprintf("it has %d bytes", len(message))
	case strings.IndexFunc(message, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0:
		return "it has characters that can't be printed"
	}
	return ""
}

// textsOf calls visit for each text of a row.
func textsOf(v reflect.Value, path string, visit func(path, text string)) {
	switch v.Kind() {
	case reflect.String:
		visit(path, v.String())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			textsOf(v.Elem(), path, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			textsOf(v.Field(i), v.Type().String()+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			textsOf(v.Index(i), path, visit)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			textsOf(key, path, visit)
			textsOf(v.MapIndex(key), path, visit)
		}
	}
}

// annotated has the annotations that rows are made of. No user would write these values.
var annotated = map[string]string{
	arktosv1.NICAnnotation: "{}", v1alpha1.AttachmentsAnnotation: "[]", annotations.NetworksKey: "[]", annotations.DefaultNetworkKey: "net", annotations.NetworkStatusKey: "[]",
	v1alpha1.LoadBalancerAnnotation: "", v1alpha1.LoadBalancerIPsAnnotation: "", v1alpha1.ExternalPoolAnnotation: "",
	annotations.NetworkKey: `{"vpc": "blue"}`, annotations.KuryrConfigKey: "", annotations.ResourceNameKey: "", annotations.ModeKey: "", annotations.VFKey: "",
	annotations.InterfacesKey: "[]", annotations.EndpointSelectorKey: "",
}

// typedSamples returns the samples of the kinds that have rows.
func typedSamples(t *testing.T) map[*descriptor.Kind]kube.Object {
	t.Helper()
	all := map[*descriptor.Kind]kube.Object{}
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, sample := range samples.All(t) {
		for _, kind := range kinds.All() {
			gvk, _, err := scheme.ObjectKinds(kind.Object)
			if err != nil {
				t.Fatal(err)
			}
			if gvk[0].GroupKind() != sample.GroupVersionKind().GroupKind() {
				continue
			}
			object := kind.NewObject()
			sample.SetAnnotations(annotated)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(sample.Object, object); err != nil {
				t.Fatalf("%s: %v", kind.Name, err)
			}
			all[kind] = object
		}
	}
	return all
}

// TestRows_HostileTexts_LittleRepeated sets each text of each kind of object to each hostile text.
// An error that repeats at most 256 bytes of the text refuses the row, or the row has at most that
// much of it. unbounded lists the exceptions.
func TestRows_HostileTexts_LittleRepeated(t *testing.T) {
	objects := typedSamples(t)
	for _, kind := range kinds.All() {
		object := objects[kind]
		if object == nil {
			t.Errorf("%s has no sample in test/api/samples/samples.yaml", kind.Name)
			continue
		}
		if _, err := kind.Row(object.DeepCopyObject().(kube.Object)); err != nil {
			t.Errorf("%s: the sample has no row: %v", kind.Name, err)
		}
		for _, l := range leavesOf(reflect.ValueOf(object).Elem(), kind.Name, func(v reflect.Value) reflect.Value { return v }) {
			for name, text := range hostile {
				changed := object.DeepCopyObject().(kube.Object)
				l.set(reflect.ValueOf(changed).Elem(), text)
				row, err := kind.Row(changed)
				if err != nil {
					if wrong := repeats(err.Error()); wrong != "" {
						t.Errorf("%s, %s: the error repeats the text: %s", l.path, name, wrong)
					}
					continue
				}
				if row == nil {
					continue
				}
				textsOf(reflect.ValueOf(row), kind.Name, func(path, text string) {
					if wrong := repeats(text); wrong != "" && unbounded[path] == "" && validated[path] == "" && !isMessage(path) {
						t.Errorf("%s, %s: the row has it as %s: %s", l.path, name, path, wrong)
					}
				})
			}
		}
	}
}
