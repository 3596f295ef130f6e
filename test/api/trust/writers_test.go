// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sample is an object of a kind, and where requests for it go.
type sample struct {
	object   *unstructured.Unstructured
	resource schema.GroupVersionResource
	// namespaced is true for a kind with namespaces.
	namespaced bool
	// parts are the subresources that an object can be written through.
	parts []string
}

// writers has the possible writers of the fields of one kind: by path and principal the ways.
type writers struct {
	fields map[string]map[string][]string
	// deleters may delete the object.
	deleters []string
	// policies are the admission policies that requests for the kind meet.
	policies []string
}

// prober tries writes of the fields of one sample.
type prober struct {
	*sample
	admin   client.Client
	clients map[string]dynamic.Interface
	found   *writers
	values  func(path string) []any
}

// probe tries to create an object with each field, then creates it, and tries to change each
// field in all ways. All tries are dry runs.
func (p *prober) probe(t *testing.T, paths []string) {
	t.Helper()
	p.found = &writers{fields: map[string]map[string][]string{}}
	for _, who := range principals() {
		if p.mayAny(t, who, "", "create") {
			p.writes(t, who, "", "create", paths)
		}
	}
	stored := p.establish(t)
	for _, part := range append([]string{""}, p.parts...) {
		for _, who := range principals() {
			switch verb := p.verb(t, who, part); {
			case verb == "":
			case who.tried:
				p.changes(t, who, part, verb, stored, paths)
			default:
				p.writes(t, who, part, "", paths)
			}
		}
	}
	for _, who := range principals() {
		if p.mayAny(t, who, "", "delete") && p.delete(t, who, stored) {
			p.found.deleters = append(p.found.deleters, who.name)
		}
	}
}

// writes notes the writes that a right alone gives, for principals whose writes are not tried.
func (p *prober) writes(t *testing.T, who principal, part, verb string, paths []string) {
	t.Helper()
	if who.tried {
		p.creations(t, who, paths)
		return
	}
	for _, path := range paths {
		ofStatus := strings.HasPrefix(path, "status.") && slices.Contains(p.parts, "status")
		if ofStatus == (part == "status") && (part == "" || ofStatus) {
			p.note(path, who.name, cmp.Or(part, verb, "update"))
		}
	}
}

// verb returns the verb that a principal may change the object with.
func (p *prober) verb(t *testing.T, who principal, part string) string {
	t.Helper()
	for _, verb := range []string{"patch", "update"} {
		if p.mayAny(t, who, part, verb) {
			return verb
		}
	}
	return ""
}

// mayAny asks the authorizer of the API server.
func (p *prober) mayAny(t *testing.T, who principal, part, verb string) bool {
	t.Helper()
	attributes := authorizationv1.ResourceAttributes{
		Namespace: p.object.GetNamespace(), Name: p.object.GetName(), Verb: verb,
		Group: p.resource.Group, Version: p.resource.Version, Resource: p.resource.Resource, Subresource: part,
	}
	if verb == "create" {
		attributes.Name = ""
	}
	review := who.review(attributes)
	if err := p.admin.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

func (p *prober) as(name string) dynamic.ResourceInterface {
	if p.namespaced {
		return p.clients[name].Resource(p.resource).Namespace(p.object.GetNamespace())
	}
	return p.clients[name].Resource(p.resource)
}

func (p *prober) creations(t *testing.T, who principal, paths []string) {
	t.Helper()
	tried := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	create := func(fields map[string]any) (*unstructured.Unstructured, error) {
		return p.as(who.name).Create(t.Context(), &unstructured.Unstructured{Object: fields}, tried)
	}
	base, err := create(copied(p.object.Object))
	if err != nil {
		if !isRefusal(err) {
			t.Errorf("%s can't create the sample %s %s: %v", who.name, p.object.GetKind(), p.object.GetName(), err)
		}
		return
	}
	for _, path := range paths {
		if p.tries(path, p.object.Object, base.Object, create) {
			p.note(path, who.name, "create")
		}
	}
}

func (p *prober) changes(t *testing.T, who principal, part, verb string, stored *unstructured.Unstructured, paths []string) {
	t.Helper()
	var parts []string
	way := "update"
	if part != "" {
		parts, way = []string{part}, part
	}
	send := func(fields map[string]any) (*unstructured.Unstructured, error) {
		changed := &unstructured.Unstructured{Object: fields}
		if verb == "update" {
			tried := metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
			return p.as(who.name).Update(t.Context(), changed, tried, parts...)
		}
		patch, err := client.MergeFrom(stored).Data(changed)
		if err != nil {
			return nil, err
		}
		tried := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
		return p.as(who.name).Patch(t.Context(), stored.GetName(), types.MergePatchType, patch, tried, parts...)
	}
	for _, path := range paths {
		if p.tries(path, stored.Object, stored.Object, send) {
			p.note(path, who.name, way)
		}
	}
}

// tries reports whether a path of an object can be changed. A refusal of a value that does not
// say that the field is fixed counts as a yes: another value may pass.
func (p *prober) tries(path string, from, before map[string]any, send func(map[string]any) (*unstructured.Unstructured, error)) bool {
	way := steps(path)
	if sibling, is := strings.CutSuffix(path, ".grpc"); is { // it excludes other kinds of probes
		way = steps(sibling + ".timeoutSeconds")
	}
	values := append(p.values(path), candidates(at(from, way))...)
	if path == "metadata.finalizers" { // both tries are without the finalizer of Alioth
		values = p.values(path)
	}
	invalid, refused := false, false
	for _, value := range values {
		fields, ok := with(copied(from), way, value).(map[string]any)
		if !ok {
			continue
		}
		if also := alike[p.object.GetKind()+" "+path]; also != "" {
			fields, _ = with(fields, steps(also), value).(map[string]any)
		}
		after, err := send(fields)
		switch {
		case err == nil && same(at(after.Object, way), at(before, way)):
			refused = true
		case err == nil:
			return true
		case isRefusal(err), fixed.MatchString(err.Error()):
			refused = true
		default:
			invalid = true
		}
	}
	return invalid && !refused
}

// fixed matches the messages of validation about fields that never change.
var fixed = regexp.MustCompile(
	`immutable|may not change|never change|must not change|can't change|cannot be changed|may not be (changed|set|updated)|Forbidden: (pod updates|spec|updates)|field is not allowed|not allowed to`,
)

// isRefusal reports whether an error is of a right or a policy, whose reason may be Invalid.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

func (p *prober) note(path, who, way string) {
	if p.found.fields[path] == nil {
		p.found.fields[path] = map[string][]string{}
	}
	if ways := p.found.fields[path][who]; !slices.Contains(ways, way) {
		p.found.fields[path][who] = append(ways, way)
	}
}

// establish creates the sample, with its status, as an author who may.
func (p *prober) establish(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	var problems []string
	for _, who := range []string{"administrator", "operator", "daemon"} {
		created, err := p.as(who).Create(t.Context(), p.object.DeepCopy(), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			created, err = p.as("administrator").Get(t.Context(), p.object.GetName(), metav1.GetOptions{})
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", who, err))
			continue
		}
		return p.withStatus(t, created)
	}
	t.Fatalf("nobody can create the sample %s %s: %s", p.object.GetKind(), p.object.GetName(), strings.Join(problems, "; "))
	return nil
}

func (p *prober) withStatus(t *testing.T, created *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	status, has := p.object.Object["status"]
	if !has || !slices.Contains(p.parts, "status") {
		return created
	}
	text, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	for _, who := range []string{"administrator", "operator", "daemon"} {
		patched, err := p.as(who).Patch(t.Context(), created.GetName(), types.MergePatchType, text, metav1.PatchOptions{}, "status")
		if err == nil {
			return patched
		}
		problems = append(problems, fmt.Sprintf("%s: %v", who, err))
	}
	t.Fatalf("nobody can write the status of the sample %s %s: %s", p.object.GetKind(), p.object.GetName(), strings.Join(problems, "; "))
	return nil
}

func (p *prober) delete(t *testing.T, who principal, stored *unstructured.Unstructured) bool {
	t.Helper()
	uid := stored.GetUID()
	err := p.as(who.name).Delete(context.WithoutCancel(t.Context()), stored.GetName(), metav1.DeleteOptions{
		DryRun: []string{metav1.DryRunAll}, Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if err != nil && !isRefusal(err) {
		t.Errorf("%s deletes %s %s: %v", who.name, stored.GetKind(), stored.GetName(), err)
	}
	return err == nil
}
