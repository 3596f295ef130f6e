// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/docs/pages"
	"github.com/alioth-net/alioth/test/docs/reference"
)

// fragment marks a block of YAML that is a part of an object: ```yaml fragment.
const fragment = "fragment"

// othersKinds are resources in commands of pages that Alioth's cluster does not have.
var othersKinds = map[string]string{
	"nmstate": "the object of the operator of kubernetes-nmstate, which a migration removes",
}

var fieldSelector = regexp.MustCompile(`^(?:--field-selector=?)(.*)$`)

// pagesOf returns the pages of the repository that describe the present. Design records and the
// changelog describe the past.
func pagesOf(t *testing.T) (list []*pages.Page) {
	t.Helper()
	all, err := pages.All(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range all {
		if page.Path != "CHANGELOG.md" && !strings.HasPrefix(page.Path, "docs/design/") {
			list = append(list, page)
		}
	}
	return list
}

// TestPageManifests_StrictValidation_Accepted asks the API server, with strict field validation and
// Alioth's policies. Blocks without a kind are values of the chart, documents of the state of a
// node, or marked as fragments.
func TestPageManifests_StrictValidation_Accepted(t *testing.T) {
	admin := start(t)
	values := chartValues(t)
	offerOfPages(t, admin)
	objects := 0
	for _, page := range pagesOf(t) {
		for _, block := range page.Blocks {
			if block.Language != "yaml" || block.Mark == fragment {
				continue
			}
			for _, content := range documentsOf(t, block.Text.Text) {
				object := &unstructured.Unstructured{Object: content}
				if object.GetKind() == "" {
					if !slices.Contains(nodeNetworkGuides, strings.TrimPrefix(page.Path, "docs/")) && !isValues(content, values) {
						t.Errorf("%s: a block without a kind is no value of the chart: mark a part of an object as ```yaml %s", page.At(block.Line), fragment)
					}
					continue
				}
				objects++
				if object.GetKind() == "TenantNetwork" { // the API server needs a moment for the offer
					eventually(t, func(context.Context) error { return wouldCreate(t, admin, object.DeepCopy()) })
					continue
				}
				err := wouldCreate(t, admin, object)
				if err != nil && page.Path == apiPage && slices.Contains(reference.ByMachine, object.GetKind()) {
					err = wouldCreate(t, as(t, operator()), object)
				}
				if err != nil {
					t.Errorf("%s: %s %s: %v", page.At(block.Line), object.GetKind(), object.GetName(), err)
				}
			}
		}
	}
	if objects < 50 {
		t.Errorf("the pages have %d objects, want 50 or more", objects)
	}
}

// apiPage has an example of every kind, also of kinds that Alioth writes.
const apiPage = "docs/reference/api.md"

// chartValues returns the values of the chart.
func chartValues(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "helm", "alioth", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// pagesNamespace is the namespace of all objects: namespaces of pages belong to tests that keep
// objects.
const pagesNamespace = "pages"

// offerOfPages makes the namespace, and offers the devices of the TenantConfigs of the pages as
// the operator does.
func offerOfPages(t *testing.T, admin client.Client) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pagesNamespace}}
	if err := admin.Create(t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	grant := &v1alpha1.TenantNetworkGrant{TenantConfig: pagesNamespace}
	for _, page := range pagesOf(t) {
		for _, block := range page.Blocks {
			if block.Language != "yaml" || !strings.Contains(block.Text.Text, "kind: TenantConfig") {
				continue
			}
			for _, content := range documentsOf(t, block.Text.Text) {
				devices, _, _ := unstructured.NestedSlice(content, "hostDevices")
				for _, device := range devices {
					grant.Devices = append(grant.Devices, fmt.Sprint(device.(map[string]any)["name"]))
				}
			}
		}
	}
	offer(t, grant)
}

// isValues reports whether the chart has all keys of a block, nested keys included. Below an empty
// map, and among labels, people may set anything.
func isValues(content, values map[string]any) bool {
	for key, value := range content {
		have, found := values[key]
		if !found {
			return false
		}
		below, isMap := value.(map[string]any)
		haveBelow, haveMap := have.(map[string]any)
		if isMap && (!haveMap || !isFree(haveBelow) && !isValues(below, haveBelow)) {
			return false
		}
	}
	return len(content) > 0
}

// isFree reports whether a map of the chart has no keys of its own: it is empty, or has labels.
func isFree(values map[string]any) bool {
	for key := range values {
		if !strings.Contains(key, "/") {
			return false
		}
	}
	return true
}

// wouldCreate asks the API server to create an object without keeping it. The name of an object is
// looked up after all checks, so an object that another test has created is accepted too.
func wouldCreate(t *testing.T, author client.Client, object *unstructured.Unstructured) error {
	t.Helper()
	namespaced, err := author.IsObjectNamespaced(object)
	if err != nil {
		return err
	}
	if namespaced {
		object.SetNamespace(pagesNamespace)
	}
	err = author.Create(t.Context(), object, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// TestPageCommands_KindsAndSelectors_Served: the API server has the resources that commands of
// kubectl name, with their field selectors.
func TestPageCommands_KindsAndSelectors_Served(t *testing.T) {
	admin := start(t)
	mapper := mapperOf(t)
	resources, selectors := 0, 0
	for _, page := range pagesOf(t) {
		for _, command := range page.Commands() {
			kinds, selector := resourcesOf(command.Words)
			for _, name := range kinds {
				if othersKinds[name] != "" {
					continue
				}
				resources++
				group := schema.ParseGroupResource(name)
				kind, err := mapper.KindFor(group.WithVersion(""))
				if err == nil && selector != "" {
					selectors++
					err = listBy(t.Context(), admin, kind, selector)
				}
				if err != nil {
					t.Errorf("%s: %s: %v", page.At(command.Line), strings.Join(command.Words, " "), err)
				}
			}
		}
	}
	if resources < 100 || selectors < 3 {
		t.Errorf("the pages have %d resources in commands and %d field selectors, want 100 and 3 or more", resources, selectors)
	}
}

func mapperOf(t *testing.T) meta.RESTMapper {
	t.Helper()
	discoverer, err := discovery.NewDiscoveryClientForConfig(shared.server.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(discoverer)
	if err != nil {
		t.Fatal(err)
	}
	return restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), discoverer, nil)
}

// resourcesOf returns the resources that a command of kubectl names, and its field selector.
func resourcesOf(words []string) (resources []string, selector string) {
	if words[0] != "kubectl" {
		return nil, ""
	}
	words = withoutNamespace(words[1:])
	verbs := []string{"get", "describe", "delete", "patch", "label", "annotate", "edit", "explain", "wait"}
	if len(words) < 2 || !slices.Contains(verbs, words[0]) || !isResource(words[1]) {
		return nil, ""
	}
	for i, word := range words[2:] {
		if found := fieldSelector.FindStringSubmatch(word); found != nil && found[1] != "" {
			selector = found[1]
		} else if found != nil && i+3 < len(words) {
			selector = words[i+3]
		}
	}
	for name := range strings.SplitSeq(words[1], ",") {
		name, _, _ = strings.Cut(name, "/")
		resources = append(resources, name)
	}
	return resources, selector
}

func withoutNamespace(words []string) []string {
	for len(words) > 2 && (words[0] == "-n" || words[0] == "--namespace") {
		words = words[2:]
	}
	return words
}

// isResource reports whether a word can be a resource: no flag, and no name that a reader
// replaces.
func isResource(word string) bool {
	return !strings.HasPrefix(word, "-") && !strings.ContainsAny(word, "<.") && strings.ToLower(word) == word || strings.Contains(word, ".alioth.dev")
}

func listBy(ctx context.Context, c client.Client, kind schema.GroupVersionKind, selector string) error {
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return fmt.Errorf("parse %q: %w", selector, err)
	}
	list := new(unstructured.UnstructuredList)
	list.SetGroupVersionKind(kind)
	return c.List(ctx, list, client.MatchingFieldsSelector{Selector: parsed})
}
