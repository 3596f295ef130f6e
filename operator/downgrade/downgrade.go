// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package downgrade finds the data that the installation of this release would lose: fields and
// values that users have set and that this release does not know. Once the CRD lacks a field, the
// API server drops it with the next write of the object. An object with an unknown value is left
// out of all decisions.
//
// It runs as a hook before an upgrade or a rollback changes anything.
package downgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/values"
)

const (
	// pageSize is how many objects one request lists.
	pageSize = 500
	// listed is how many fields and values an error names.
	listed = 8
)

// checked is a kind that users write.
type checked struct {
	schema.GroupVersionKind
	// crd is the name of the CRD for a kind of another project. The CRD may belong to that project.
	// Then the release does not change its fields, and may not know all of them.
	crd string
}

// written returns the kinds that users write, of Alioth and of other projects: Alioth adds fields
// of its own to those. The chart gives the hook the rights for them (templates/upgrade.yaml).
func written() []checked {
	all := []checked{{GroupVersionKind: arktosv1.GroupVersion.WithKind("Network")}}
	for _, kind := range []string{"VPC", "Subnet", "SharedService", "ExternalPool", "HostAccess", "DelegationGrant"} {
		all = append(all, checked{GroupVersionKind: v1alpha1.GroupVersion.WithKind(kind)})
	}
	for _, of := range []struct {
		group schema.GroupVersion
		kinds map[string]string // and their resources
	}{
		{danmv1.GroupVersion, ofDANM},
		{danmiov1.GroupVersion, ofDANM},
		{nmstatev1.GroupVersion, ofNMState},
		{multitenancyv1alpha1.GroupVersion, ofCNS},
		{acnv1alpha1.GroupVersion, ofCNS},
	} {
		for _, kind := range slices.Sorted(maps.Keys(of.kinds)) {
			all = append(all, checked{of.group.WithKind(kind), of.kinds[kind] + "." + of.group.Group})
		}
	}
	return all
}

// Kinds of other projects with their resources.
var (
	ofDANM = map[string]string{
		"DanmNet":        "danmnets",
		"TenantNetwork":  "tenantnetworks",
		"ClusterNetwork": "clusternetworks",
		"TenantConfig":   "tenantconfigs",
	}
	ofNMState = map[string]string{
		"NodeNetworkConfigurationPolicy": "nodenetworkconfigurationpolicies",
		"NodeNetConfPolicy":              "nodenetconfpolicies",
	}
	ofCNS = map[string]string{"PodNetwork": "podnetworks", "PodNetworkInstance": "podnetworkinstances"}
)

// Check returns an error that names the fields and values which this release does not know. It
// changes nothing.
func Check(ctx context.Context, c client.Reader) error {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		return fmt.Errorf("register API types: %w", err)
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})
	var found []string
	for _, kind := range written() {
		ours, err := isOurs(ctx, c, kind)
		if err != nil {
			return err
		}
		if !ours {
			continue
		}
		fields, err := unknownOf(ctx, c, decoder, kind.GroupVersionKind)
		if err != nil {
			return err
		}
		found = append(found, fields...)
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf(
		"v%s does not know fields or values that objects of this cluster have, and would lose them: %s; nothing was changed; "+
			"remove them first, or stay at the release that knows them",
		version.Number,
		summarize(found),
	)
}

// isOurs reports whether the CRD of a kind is one of the chart, which labels it.
func isOurs(ctx context.Context, c client.Reader, kind checked) (bool, error) {
	if kind.crd == "" {
		return true, nil
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(
		schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	)
	err := c.Get(ctx, client.ObjectKey{Name: kind.crd}, crd)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the CRD %s: %w", kind.crd, err)
	}
	return crd.Labels["app.kubernetes.io/name"] == "alioth", nil
}

// unknownOf returns the unknown fields and values of all objects of a kind. A kind that the API lacks has
// no objects.
func unknownOf(
	ctx context.Context,
	c client.Reader,
	decoder runtime.Decoder,
	kind schema.GroupVersionKind,
) ([]string, error) {
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

// unknownIn returns the unknown fields and values of an object, and fields of another type than
// here. It looks at the spec, or at the whole object for kinds without a spec. The status of an
// object is written anew by its owner, and the metadata belong to Kubernetes.
func unknownIn(decoder runtime.Decoder, object *unstructured.Unstructured) ([]string, error) {
	content := maps.Clone(object.Object)
	delete(content, "metadata")
	delete(content, "status")
	raw, err := (&unstructured.Unstructured{Object: content}).MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", object.GetKind(), quote.Name(object.GetName()), err)
	}
	_, _, err = decoder.Decode(raw, nil, nil)
	var found []string
	for _, problem := range problems(err) {
		found = append(found, fmt.Sprintf("%s %s: %v", object.GetKind(), quote.Name(object.GetName()), quote.Error(problem)))
	}
	if value, unknown := unknownValue(decoder, object); unknown {
		found = append(found, fmt.Sprintf("%s %s: %v", object.GetKind(), quote.Name(object.GetName()), value))
	}
	return found, nil
}

// unknownValue converts an object to its row, and returns the error about a value that this release
// does not know. Other faults of an object do not depend on the release.
func unknownValue(decoder runtime.Decoder, object *unstructured.Unstructured) (*values.UnknownError, bool) {
	var decoded runtime.Object
	if raw, err := object.MarshalJSON(); err == nil {
		decoded, _, _ = decoder.Decode(raw, nil, nil) // has the object in spite of unknown fields
	}
	typed, ok := decoded.(kube.Object)
	kind := descriptorOf(decoded)
	if !ok || kind == nil {
		return nil, false
	}
	_, err := kind.Row(typed)
	return errors.AsType[*values.UnknownError](err)
}

// descriptorOf returns the descriptor of an object's kind, or nil.
func descriptorOf(object runtime.Object) *descriptor.Kind {
	all := kinds.All()
	i := slices.IndexFunc(
		all,
		func(kind *descriptor.Kind) bool { return reflect.TypeOf(kind.Object) == reflect.TypeOf(object) },
	)
	if i < 0 {
		return nil
	}
	return all[i]
}

// problems returns the single errors of a strict decoder.
func problems(err error) []error {
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		return strict.Errors()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// summarize names some of the objects found, and gives the number of the others.
func summarize(found []string) string {
	slices.Sort(found)
	if len(found) <= listed {
		return strings.Join(found, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(found[:listed], "; "), len(found)-listed)
}
