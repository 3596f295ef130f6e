// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package downgrade finds what the installation of this release would lose: fields and values
// that users have set and that this release does not know. Once the CRD lacks a field, the API
// server drops it with the next write of the object. An object with an unknown value is left
// out of all decisions.
//
// It runs as a hook before an upgrade or a rollback changes anything.
package downgrade

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/said"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/store/descriptor"
	stored "github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/kube"
)

const (
	// pageSize is how many objects one request lists.
	pageSize = 500
	// listed is how many fields and values an error names.
	listed = 8
)

// kinds are those of Alioth that users write. The schemas of other projects' kinds do not change
// with a release of Alioth.
func kinds() []schema.GroupVersionKind {
	all := []schema.GroupVersionKind{arktosv1.GroupVersion.WithKind("Network")}
	for _, kind := range []string{"VPC", "Subnet", "SharedService", "ExternalPool", "HostAccess", "DelegationGrant"} {
		all = append(all, v1alpha1.GroupVersion.WithKind(kind))
	}
	return all
}

// Check returns an error that names the fields and values which this release does not know. It
// changes nothing.
func Check(ctx context.Context, c client.Reader) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})
	var found []string
	for _, kind := range kinds() {
		fields, err := unknownOf(ctx, c, decoder, kind)
		if err != nil {
			return err
		}
		found = append(found, fields...)
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("v%s does not know fields or values that objects of this cluster have, and would lose them: %s; nothing was changed; "+
		"remove them first, or stay at the release that knows them", version.Number, summarize(found))
}

// newScheme has the types of the kinds.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, arktosv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register API types: %w", err)
		}
	}
	return scheme, nil
}

// unknownOf returns the unknown fields and values of all objects of a kind. A kind that the API lacks has
// no objects.
func unknownOf(ctx context.Context, c client.Reader, decoder runtime.Decoder, kind schema.GroupVersionKind) ([]string, error) {
	var found []string
	list := &unstructured.UnstructuredList{}
	for {
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := c.List(ctx, list, client.Limit(pageSize), client.Continue(list.GetContinue()))
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list objects of kind %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			fields, err := unknownIn(decoder, &list.Items[i])
			if err != nil {
				return nil, err
			}
			found = append(found, fields...)
		}
		if list.GetContinue() == "" {
			return found, nil
		}
	}
}

// unknownIn returns the unknown fields and values in the spec of an object, and what has another
// type there. The status of an object is written anew by its owner.
func unknownIn(decoder runtime.Decoder, object *unstructured.Unstructured) ([]string, error) {
	raw, err := object.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", object.GetKind(), said.Name(object.GetName()), err)
	}
	typed, _, err := decoder.Decode(raw, nil, nil)
	var found []string
	for _, problem := range problems(err) {
		if strings.Contains(problem.Error(), "spec.") {
			found = append(found, fmt.Sprintf("%s %s: %v", object.GetKind(), said.Name(object.GetName()), said.Error(problem)))
		}
	}
	if value, unknown := unknownValue(typed); unknown {
		found = append(found, fmt.Sprintf("%s %s: %v", object.GetKind(), said.Name(object.GetName()), value))
	}
	return found, nil
}

// unknownValue converts an object to its row, and returns the error about a value that this
// release does not know. Other faults of an object are no matter of releases.
func unknownValue(object runtime.Object) (*values.UnknownError, bool) {
	typed, ok := object.(kube.Object)
	kind := descriptorOf(object)
	if !ok || kind == nil {
		return nil, false
	}
	_, err := kind.Row(typed)
	return errors.AsType[*values.UnknownError](err)
}

// descriptorOf returns the descriptor of an object's kind, or nil.
func descriptorOf(object runtime.Object) *descriptor.Kind {
	all := stored.All()
	i := slices.IndexFunc(all, func(kind *descriptor.Kind) bool { return reflect.TypeOf(kind.Object) == reflect.TypeOf(object) })
	if i < 0 {
		return nil
	}
	return all[i]
}

// problems are the single errors of a strict decoder.
func problems(err error) []error {
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		return strict.Errors()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// summarize names some of what was found, and the number of the others.
func summarize(found []string) string {
	slices.Sort(found)
	if len(found) <= listed {
		return strings.Join(found, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(found[:listed], "; "), len(found)-listed)
}
