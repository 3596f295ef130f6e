// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

type object = map[string]any

// document returns the OpenAPI document, which is written by hand.
var document = sync.OnceValues(func() (object, error) {
	text, err := os.ReadFile("../../../docs/reference/node-ipam-api.openapi.yaml")
	if err != nil {
		return nil, err
	}
	var doc object
	return doc, yaml.UnmarshalStrict(text, &doc)
})

// contract is the document in a test.
type contract struct {
	testing.TB
	doc object
}

func newContract(t testing.TB) contract {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	return contract{t, doc}
}

// at returns what the document has at a path of keys, or nil.
func (c contract) at(keys ...string) object {
	value := c.doc
	for _, key := range keys {
		value, _ = value[key].(object)
	}
	return value
}

// expanded returns a schema without references. A closed one allows no other properties than its
// own.
func (c contract) expanded(value any, closed bool) any {
	switch value := value.(type) {
	case []any:
		list := []any{}
		for _, one := range value {
			list = append(list, c.expanded(one, closed))
		}
		return list
	case object:
		if ref, ok := value["$ref"].(string); ok {
			target := c.at("components", "schemas", strings.TrimPrefix(ref, "#/components/schemas/"))
			if target == nil {
				c.Errorf("nothing is at %s", ref)
			}
			return c.expanded(target, closed)
		}
		made := object{}
		for key, one := range value {
			made[key] = c.expanded(one, closed)
		}
		if _, ok := value["properties"].(object); ok && closed {
			made["additionalProperties"] = false
		}
		return made
	}
	return value
}

// valid compares JSON with an expanded schema, and returns the differences.
func valid(text []byte, schema any) error {
	raw, err := json.Marshal(schema)
	if err != nil {
		return err
	}
	var parsed spec.Schema
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return err
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	return validate.AgainstSchema(&parsed, value, strfmt.Default)
}

// schemaOf returns the schema of a body.
func schemaOf(body object) any {
	content, _ := body["content"].(object)
	media, _ := content["application/json"].(object)
	return media["schema"]
}

// templateOf returns the path of the document that a path of a request belongs to.
func templateOf(path string) string {
	for _, version := range wire.Versions() {
		if rest, ok := strings.CutPrefix(path, version); ok && version != "" {
			path = rest
		}
	}
	if strings.HasPrefix(path, wire.EndpointsPath) {
		return wire.EndpointsPath + wire.ContainerIDVariable
	}
	return path
}

// guard compares each exchange with the document.
func (c contract) guard(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent []byte
		if r.Body != nil {
			sent, _ = io.ReadAll(r.Body)
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, r)
		c.exchange(r, sent, recorder)
		for name, values := range recorder.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
	})
}

// exchange compares an answer with the document, and a request that succeeded. The service ignores
// the fields of a request that it does not know.
func (c contract) exchange(r *http.Request, sent []byte, got *httptest.ResponseRecorder) {
	c.Helper()
	operation := c.at("paths", templateOf(r.URL.Path), strings.ToLower(r.Method))
	answer := objectOf(objectOf(operation["responses"])[strconv.Itoa(got.Code)])
	if answer == nil {
		// The document has no answers for unserved paths, and for paths of the socket over TCP.
		if !slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized}, got.Code) {
			c.Errorf("%s %s is answered with %d, which is not in the document: %s", r.Method, r.URL.Path, got.Code, got.Body)
		}
		return
	}
	if err := valid(got.Body.Bytes(), c.expanded(schemaOf(answer), true)); err != nil {
		c.Errorf("the answer %d to %s %s: %v\n%s", got.Code, r.Method, r.URL.Path, err, got.Body)
	}
	for name := range objectOf(answer["headers"]) {
		if got.Header().Get(name) == "" {
			c.Errorf("the answer %d to %s %s lacks the header %s", got.Code, r.Method, r.URL.Path, name)
		}
	}
	request := objectOf(operation["requestBody"])
	if got.Header().Get(wire.CodeHeader) == wire.Success.String() && request != nil {
		if err := valid(sent, c.expanded(schemaOf(request), false)); err != nil {
			c.Errorf("%s %s succeeded: %v\n%s", r.Method, r.URL.Path, err, sent)
		}
	}
}

// fill sets all fields of a value. Fields of some types have values that the API knows.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case wire.NICType:
		v.Set(reflect.ValueOf(wire.InfraNIC))
		return
	case wire.IPState:
		v.Set(reflect.ValueOf(wire.Assigned))
		return
	case wire.ReturnCode:
		return
	case json.RawMessage:
		var pod wire.OrchestratorContext
		fill(reflect.ValueOf(&pod).Elem())
		text, _ := json.Marshal(pod)
		v.Set(reflect.ValueOf(json.RawMessage(text)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		one := reflect.New(v.Type().Elem()).Elem()
		fill(one)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), one)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic(fmt.Sprintf("a field of type %s: the test has no value for it", v.Type()))
	}
}

// missing returns the properties of a schema that a value with all fields lacks.
func missing(path string, schema, value any) (lacking []string) {
	s, _ := schema.(object)
	for name, property := range objectOf(s["properties"]) {
		inner, ok := objectOf(value)[name]
		if !ok {
			lacking = append(lacking, path+"."+name)
		}
		lacking = append(lacking, missing(path+"."+name, property, inner)...)
	}
	if items, ok := value.([]any); ok {
		lacking = append(lacking, missing(path, s["items"], items[0])...)
	}
	if each, ok := s["additionalProperties"].(object); ok {
		lacking = append(lacking, missing(path, each, objectOf(value)["key"])...)
	}
	return lacking
}

func objectOf(value any) object {
	o, _ := value.(object)
	return o
}

// compare compares a type with its schema, in both directions.
func (c contract) compare(zero any) {
	c.Helper()
	v := reflect.New(reflect.TypeOf(zero)).Elem()
	fill(v)
	text, err := json.Marshal(v.Interface())
	if err != nil {
		c.Fatal(err)
	}
	name := v.Type().Name()
	schema := c.expanded(c.at("components", "schemas", name), true)
	if err := valid(text, schema); err != nil {
		c.Errorf("%s: %v\n%s", name, err, text)
		return
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		c.Fatal(err)
	}
	if lacking := missing(name, schema, value); len(lacking) > 0 {
		c.Errorf("package wire lacks what the document has: %v", lacking)
	}
}

func TestOpenAPI_WireTypes_AllDescribed(t *testing.T) {
	c := newContract(t)
	for _, op := range wire.Operations() {
		c.compare(op.Response)
		if op.Request != nil {
			c.compare(op.Request)
		}
	}
	c.compare(wire.UnsupportedResponse{})
	c.compare(wire.OrchestratorContext{})
}

func TestOpenAPI_WireOperations_AllDescribed(t *testing.T) {
	c := newContract(t)
	described := 0
	for _, methods := range c.at("paths") {
		described += len(objectOf(methods))
	}
	if described != len(wire.Operations()) {
		t.Errorf("the document has %d operations, package wire %d", described, len(wire.Operations()))
	}
	for _, op := range wire.Operations() {
		got := c.at("paths", op.Path, strings.ToLower(op.Method))
		if got["operationId"] != op.Name || got["summary"] != op.Summary {
			t.Errorf("%s %s is %v: %v in the document, want %s: %s", op.Method, op.Path, got["operationId"], got["summary"], op.Name, op.Summary)
			continue
		}
		c.refers(op.Name, schemaOf(objectOf(got["requestBody"])), op.Request)
		c.refers(op.Name, schemaOf(objectOf(objectOf(got["responses"])["200"])), op.Response)
		want := "Codes: " + strings.Join(texts(append(slices.Clone(wire.CommonCodes()), op.Codes...)), ", ") + "."
		if op.Socket {
			want += " Only at the unix socket."
		}
		if got["description"] != want {
			t.Errorf("%s is described by %q, want %q", op.Name, got["description"], want)
		}
		if _, refused := objectOf(got["responses"])["401"]; refused == op.Socket {
			t.Errorf("%s has an answer without a token: %t", op.Name, refused)
		}
	}
}

// refers compares the name of a body's schema with its type.
func (c contract) refers(operation string, schema, zero any) {
	c.Helper()
	want := any(nil)
	if zero != nil {
		want = "#/components/schemas/" + reflect.TypeOf(zero).Name()
	}
	if got := objectOf(schema)["$ref"]; got != want {
		c.Errorf("%s has the body %v, want %v", operation, got, want)
	}
}

// texts returns codes with their names.
func texts(codes []wire.ReturnCode) (list []string) {
	slices.Sort(codes)
	for _, code := range codes {
		list = append(list, fmt.Sprintf("%d %s", code, code))
	}
	return list
}

func TestOpenAPI_CodesAndVersions_AllDescribed(t *testing.T) {
	c := newContract(t)
	schema := c.at("components", "schemas", "ReturnCode")
	var codes []wire.ReturnCode
	for _, code := range schema["enum"].([]any) {
		codes = append(codes, wire.ReturnCode(code.(float64)))
	}
	if !slices.Equal(codes, wire.Codes()) {
		t.Errorf("codes are %v, want %v", codes, wire.Codes())
	}
	for _, code := range wire.Codes() {
		if !strings.Contains(schema["description"].(string), fmt.Sprintf("- %d: ", code)) {
			t.Errorf("code %d has no meaning in the document", code)
		}
	}
	text, err := json.Marshal(c.doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range wire.Versions() {
		if !strings.Contains(string(text), `"http://localhost:10090`+version+`"`) {
			t.Errorf("version %q is not in the document", version)
		}
	}
	for name, schema := range c.at("components", "schemas") {
		if objectOf(schema)["description"] == nil {
			t.Errorf("%s has no description", name)
		}
		if !strings.Contains(string(text), `"#/components/schemas/`+name+`"`) {
			t.Errorf("nothing uses %s", name)
		}
	}
}
