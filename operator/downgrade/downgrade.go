// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package downgrade finds what the installation of this release would lose: fields that users
// have set and that this release does not know. The API server drops them with the next write
// of the object once the CRD lacks them.
//
// It runs as a hook before an upgrade or a rollback changes anything.
package downgrade

import (
	"context"
	"fmt"
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
)

const (
	// pageSize is how many objects one request lists.
	pageSize = 500
	// listed is how many fields an error names.
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

// Check returns an error that names fields which this release does not know. It changes nothing.
func Check(ctx context.Context, c client.Reader) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, arktosv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("register API types: %w", err)
		}
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
	return fmt.Errorf("v%s does not know fields that objects of this cluster have, and would lose them: %s; nothing was changed; "+
		"remove the fields first, or stay at the release that knows them", version.Number, summarize(found))
}

// unknownOf returns the unknown fields of all objects of a kind. A kind that the API lacks has
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

// unknownIn returns the unknown fields in the spec of an object, and what has another type there.
// The status of an object is written anew by its owner.
func unknownIn(decoder runtime.Decoder, object *unstructured.Unstructured) ([]string, error) {
	raw, err := object.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", object.GetKind(), said.Name(object.GetName()), err)
	}
	_, _, err = decoder.Decode(raw, nil, nil)
	var found []string
	for _, problem := range problems(err) {
		if strings.Contains(problem.Error(), "spec.") {
			found = append(found, fmt.Sprintf("%s %s: %v", object.GetKind(), said.Name(object.GetName()), said.Error(problem)))
		}
	}
	return found, nil
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

// summarize names some of the fields, and the number of the others.
func summarize(fields []string) string {
	slices.Sort(fields)
	if len(fields) <= listed {
		return strings.Join(fields, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(fields[:listed], "; "), len(fields)-listed)
}
