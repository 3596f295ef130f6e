// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tests is the field manager of the objects that the tests apply.
const tests = client.FieldOwner("tests")

// target is where a write goes: an object, or one of its subresources. The write is only tried, and
// the object becomes the object that would have been stored.
type target struct {
	client.Client
	subresource string
}

func (to target) update(ctx context.Context, object client.Object) error {
	if to.subresource == "" {
		return to.Update(ctx, object, client.DryRunAll)
	}
	return to.SubResource(to.subresource).Update(ctx, object, &client.SubResourceUpdateOptions{
		UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}},
	})
}

func (to target) patch(ctx context.Context, object client.Object, kind types.PatchType, text []byte) error {
	options := client.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	if kind == types.ApplyPatchType {
		options.FieldManager, options.Force = string(tests), new(true)
	}
	if to.subresource == "" {
		return to.Patch(ctx, object, client.RawPatch(kind, text), &options)
	}
	return to.SubResource(to.subresource).Patch(ctx, object, client.RawPatch(kind, text), &client.SubResourcePatchOptions{PatchOptions: options})
}

// How a change can be written. Apply is a patch, too.
const (
	byUpdate = "update"
	byPatch  = "patch"
	byApply  = "apply"
)

// write is one way to write a change; verb is the right that it takes.
type write struct {
	name, verb string
	send       func(ctx context.Context, to target, before, after client.Object) error
}

// waysOf returns how a change of an object can be written.
func waysOf(object client.Object, subresource string) []write {
	ways := []write{{byUpdate, byUpdate, func(ctx context.Context, to target, _, after client.Object) error { return to.update(ctx, after) }}}
	if subresource == "finalize" {
		return ways // it has no patch
	}
	ways = append(ways,
		write{"merge patch", byPatch, mergePatch(types.MergePatchType)},
		write{"JSON patch", byPatch, jsonPatch},
		write{byApply, byPatch, apply},
	)
	if scheme.Scheme.Recognizes(object.GetObjectKind().GroupVersionKind()) {
		ways = append(ways, write{"strategic merge patch", byPatch, mergePatch(types.StrategicMergePatchType)})
	}
	return ways
}

// mergePatch sends the difference of two objects. For the fields that the tests
// change, both kinds of a merge patch are spelled alike.
func mergePatch(kind types.PatchType) func(context.Context, target, client.Object, client.Object) error {
	return func(ctx context.Context, to target, before, after client.Object) error {
		text, err := client.MergeFrom(before).Data(after)
		if err != nil {
			return fmt.Errorf("make the patch: %w", err)
		}
		return to.patch(ctx, after, kind, text)
	}
}

func jsonPatch(ctx context.Context, to target, _, after client.Object) error {
	fields, err := fieldsOf(after)
	if err != nil {
		return err
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var operations []operation
	for field, value := range fields {
		if field != "apiVersion" && field != "kind" {
			operations = append(operations, operation{"add", "/" + field, value})
		}
	}
	text, err := json.Marshal(operations)
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	return to.patch(ctx, after, types.JSONPatchType, text)
}

func apply(ctx context.Context, to target, _, after client.Object) error {
	after.SetManagedFields(nil)
	text, err := json.Marshal(after)
	if err != nil {
		return fmt.Errorf("encode the object: %w", err)
	}
	return to.patch(ctx, after, types.ApplyPatchType, text)
}

func fieldsOf(object client.Object) (map[string]any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode the object: %w", err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	return fields, nil
}

// change is a change of an object that exists, to be written in every way.
type change[T client.Object] struct {
	name string
	who  user
	// object has the name of the one to change.
	object T
	// through is the subresource that is written to, "" for the object.
	through string
	edit    func(T)
	// refused is part of the refusal; "" when the change is allowed.
	refused string
	// except are ways that can't express the change, or whose verb no user has a right
	// to.
	except string
}

// attempts returns one attempt for each way.
func (c change[T]) attempts(t *testing.T) []attempt {
	t.Helper()
	admin := start(t)
	kind, err := admin.GroupVersionKindFor(c.object)
	if err != nil {
		t.Fatal(err)
	}
	c.object.GetObjectKind().SetGroupVersionKind(kind)
	var all []attempt
	for _, way := range waysOf(c.object, c.through) {
		if way.name != c.except && way.verb != c.except {
			all = append(all, attempt{name: c.name + ", " + way.name, who: c.who, refused: c.refused, do: c.send(admin, way)})
		}
	}
	return all
}

// send changes the object that admin reads: the author of a write need not have a right to read it
// by name.
func (c change[T]) send(admin client.Client, way write) func(context.Context, client.Client) error {
	return func(ctx context.Context, user client.Client) error {
		before, err := copyOf(c.object)
		if err != nil {
			return err
		}
		if err := admin.Get(ctx, client.ObjectKeyFromObject(before), before); err != nil {
			return fmt.Errorf("read the object: %w", err)
		}
		before.GetObjectKind().SetGroupVersionKind(c.object.GetObjectKind().GroupVersionKind())
		after, err := copyOf(before)
		if err != nil {
			return err
		}
		c.edit(after)
		return way.send(ctx, target{user, c.through}, before, after)
	}
}

func copyOf[T client.Object](object T) (T, error) {
	copied, ok := object.DeepCopyObject().(T)
	if !ok {
		return copied, fmt.Errorf("copy %T", object)
	}
	return copied, nil
}

// runChanges makes every change in every way.
func runChanges[T client.Object](t *testing.T, changes []change[T]) {
	t.Helper()
	var all []attempt
	for _, c := range changes {
		all = append(all, c.attempts(t)...)
	}
	run(t, all)
}

// creations returns attempts to create an object in both ways.
func creations(t *testing.T, name string, who user, object client.Object, refused string) []attempt {
	t.Helper()
	kind, err := start(t).GroupVersionKindFor(object)
	if err != nil {
		t.Fatal(err)
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	return []attempt{
		{name + ", create", who, creating(object), refused},
		{name + ", apply", who, func(ctx context.Context, c client.Client) error {
			copied, err := copyOf(object)
			if err != nil {
				return err
			}
			return apply(ctx, target{Client: c}, nil, copied)
		}, refused},
	}
}

// establish creates an object by applying it, so that applying it again without
// a field takes the field away.
func establish(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		t.Fatal(err)
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Patch(t.Context(), object, client.RawPatch(types.ApplyPatchType, text), tests); err != nil {
		t.Fatalf("apply %T %s: %v", object, object.GetName(), err)
	}
}
