// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"
)

// Patcher changes objects. A Client is one.
type Patcher interface {
	Patch(ctx context.Context, object Object, kind types.PatchType, data []byte, subresource ...string) error
}

// Set gives a field of a status or a specification a value.
type Set struct {
	// Field is the name of a field in JSON.
	Field string
	// Value replaces the whole field, also if it is a document. A zero value and an empty
	// list remove the field; an empty map that is not nil is a document without fields.
	Value any
}

// PatchStatus gives fields of an object's status new values and leaves all others as they are.
// The object has the state that was read. PatchStatus writes only the fields that differ from it,
// and sends no request if none differs. If the object has a resource version that is not the
// newest, PatchStatus fails with a conflict. PatchStatus does not change the object.
func PatchStatus(ctx context.Context, api Patcher, object Object, fields ...Set) error {
	return patch(ctx, api, object, "status", fields, "status")
}

// PatchSpec does the same as PatchStatus for fields of the specification.
func PatchSpec(ctx context.Context, api Patcher, object Object, fields ...Set) error {
	return patch(ctx, api, object, "spec", fields)
}

// operation is one of a JSON Patch (RFC 6902). A merge patch would not do: it merges
// documents instead of replacing them.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

func patch(ctx context.Context, api Patcher, object Object, part string, fields []Set, subresource ...string) error {
	now, err := fieldsOf(object, part)
	if err != nil {
		return err
	}
	changes, err := changed(now, part, fields)
	if err != nil || len(changes) == 0 {
		return err
	}
	return send(ctx, api, object, changes, subresource...)
}

// ReplaceStatus replaces the whole status of an object, whose metadata is as it was read. If
// the resource version is not the newest, it fails with a conflict.
func ReplaceStatus(ctx context.Context, api Patcher, object Object, status any) error {
	value, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encode the status of %s: %w", object.GetName(), err)
	}
	return send(ctx, api, object, []operation{{Op: "add", Path: "/status", Value: value}}, "status")
}

func send(ctx context.Context, api Patcher, object Object, changes []operation, subresource ...string) error {
	if version := object.GetResourceVersion(); version != "" {
		// The API server compares the version in the patched object with the version of the
		// stored object, and answers with a conflict. A test operation would fail as an invalid
		// patch.
		value, err := json.Marshal(version)
		if err != nil {
			return fmt.Errorf("encode a resource version: %w", err)
		}
		changes = append(changes, operation{Op: "add", Path: "/metadata/resourceVersion", Value: value})
	}
	data, err := json.Marshal(changes)
	if err != nil {
		return fmt.Errorf("encode the patch of %s: %w", object.GetName(), err)
	}
	return api.Patch(ctx, object, types.JSONPatchType, data, subresource...)
}

// fieldsOf returns the fields of a part of an object, nil if it does not have the part.
func fieldsOf(object Object, part string) (map[string]json.RawMessage, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", object, err)
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return nil, fmt.Errorf("decode %T: %w", object, err)
	}
	if parts[part] == nil {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(parts[part], &fields); err != nil {
		return nil, fmt.Errorf("decode %s of %T: %w", part, object, err)
	}
	return fields, nil
}

// changed returns the operations that turn the fields of now into the fields of sets. If the
// object lacks the part, one operation adds the whole part, because nothing can be added to it.
func changed(now map[string]json.RawMessage, part string, sets []Set) ([]operation, error) {
	var changes []operation
	all := map[string]json.RawMessage{}
	for _, set := range sets {
		old, there := now[set.Field]
		path := "/" + part + "/" + set.Field
		if isUnset(set.Value) {
			if there {
				changes = append(changes, operation{Op: "remove", Path: path})
			}
			continue
		}
		value, err := json.Marshal(set.Value)
		if err != nil {
			return nil, fmt.Errorf("encode %s.%s: %w", part, set.Field, err)
		}
		if !there || !SameJSON(old, value) {
			all[set.Field] = value
			changes = append(changes, operation{Op: "add", Path: path, Value: value})
		}
	}
	if now != nil || len(changes) == 0 {
		return changes, nil
	}
	value, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", part, err)
	}
	return []operation{{Op: "add", Path: "/" + part, Value: value}}, nil
}

// isUnset reports whether the value removes its field.
func isUnset(value any) bool {
	if value == nil {
		return true
	}
	v := reflect.ValueOf(value)
	return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

// SameJSON reports whether two JSON texts have the same value.
func SameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}
