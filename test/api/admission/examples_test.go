// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/pluginconf"
	"github.com/alioth-net/alioth/test/api/chart"
)

// guides are the documents whose examples are tested as they are written.
var guides = []string{"tenants/multi-network.md", "migrate/danm.md", "migrate/multus.md"}

var (
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")
	// inlineRequest is an element of a list of interfaces, as the tables have it.
	inlineRequest = regexp.MustCompile("`(\\{\"[^`]*\\})`")
)

// TestGuideExamples_StrictValidation_Accepted creates the objects of each document in its order,
// with strict field validation, and requires the lists of interfaces to be valid and to name
// networks of the document.
func TestGuideExamples_StrictValidation_Accepted(t *testing.T) {
	admin := start(t)
	for _, name := range guides {
		t.Run(path.Base(name), func(t *testing.T) {
			var lists []listOfPods
			blocks := yamlBlock.FindAllStringSubmatch(readGuide(t, name), -1)
			if len(blocks) == 0 {
				t.Fatal("the document has no example")
			}
			for _, block := range blocks {
				for _, content := range documentsOf(t, block[1]) {
					object := &unstructured.Unstructured{Object: content}
					if object.GetKind() == "" {
						checkValues(t, block[1], content)
						continue
					}
					createExample(t, admin, object)
					checkDefinition(t, admin, object)
					lists = append(lists, listsOf(object)...)
				}
			}
			if len(lists) == 0 {
				t.Error("no example lists interfaces")
			}
			for _, list := range lists {
				checkList(t, admin, list)
			}
		})
	}
}

// TestGuideRequests_EachListElement_Parsed reads the elements of lists in tables.
func TestGuideRequests_EachListElement_Parsed(t *testing.T) {
	requests := 0
	for _, name := range guides {
		for _, request := range inlineRequest.FindAllStringSubmatch(readGuide(t, name), -1) {
			requests++
			if _, err := annotations.ParseInterfaces("[" + request[1] + "]"); err != nil {
				t.Errorf("%s: %s: %v", name, request[1], err)
			}
		}
	}
	if requests == 0 {
		t.Error("the documents have no request")
	}
}

func readGuide(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documentsOf returns the documents of a block of YAML.
func documentsOf(t *testing.T, block string) (all []map[string]any) {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(block), len(block))
	for {
		content := map[string]any{}
		err := decoder.Decode(&content) // numbers are float64, as sigs.k8s.io/yaml has them
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, block)
		}
		all = append(all, content)
	}
}

// checkValues renders the chart with values, which have to be its defaults.
func checkValues(t *testing.T, block string, values map[string]any) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := chart.New(t, root, nil).Template(t.Context(), "--values", file); err != nil {
		t.Errorf("the chart refuses the values: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(root, "helm", "alioth", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]any{}
	if err := yaml.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	for section, shown := range values {
		have, _ := defaults[section].(map[string]any)
		entries, _ := shown.(map[string]any)
		for key, value := range entries {
			if !reflect.DeepEqual(have[key], value) {
				t.Errorf("%s.%s is shown as %v, and the default is %v", section, key, value, have[key])
			}
		}
	}
}

// createExample creates an object, and publishes the offer of a TenantConfig, as the operator does.
// A refusal is repeated, because the API server needs a moment for new namespaces and parameters.
func createExample(t *testing.T, admin client.Client, object *unstructured.Unstructured) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := admin.Create(ctx, object, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		return nil
	})
	if object.GetKind() != "TenantConfig" {
		return
	}
	grant := &v1alpha1.TenantNetworkGrant{TenantConfig: object.GetName()}
	devices, _, _ := unstructured.NestedSlice(object.Object, "hostDevices")
	for _, device := range devices {
		grant.Devices = append(grant.Devices, fmt.Sprint(device.(map[string]any)["name"]))
	}
	offer(t, grant)
}

// listOfPods are the annotations of a pod, or of the template of pods, in a namespace.
type listOfPods struct {
	namespace   string
	annotations map[string]string
}

func listsOf(object *unstructured.Unstructured) (all []listOfPods) {
	for _, path := range [][]string{{"metadata", "annotations"}, {"spec", "template", "metadata", "annotations"}} {
		texts, _, _ := unstructured.NestedStringMap(object.Object, path...)
		if text, _, _ := annotations.InterfacesOf(texts); text != "" || texts[annotations.NetworksKey] != "" {
			all = append(all, listOfPods{object.GetNamespace(), texts})
		}
	}
	return all
}

// checkDefinition requires that a NetworkAttachmentDefinition can be used, and that its network
// exists.
func checkDefinition(t *testing.T, admin client.Client, object *unstructured.Unstructured) {
	t.Helper()
	if object.GetKind() != multinet.KindDefinition {
		return
	}
	typed := new(nadv1.NetworkAttachmentDefinition)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		t.Fatal(err)
	}
	row, err := outside.Definition.Convert(typed)
	if err != nil || row.Problem != "" {
		t.Errorf("%s can't be used: %v, %s", object.GetName(), err, row.Problem)
	}
	if row.Target.Kind == "" {
		err = errors.New("no DelegationGrant of the document is for it")
		for _, grant := range grantsOf(t, admin) {
			if grant.Uses(row.Reference()) {
				_, err = pluginconf.Build(pluginconf.Request{
					Where: object.GetName(), Text: []byte(row.Config), Name: row.Name, Allowed: pluginconf.Allowed{Plugins: grant.Plugins, IPAM: grant.IPAM},
				})
			}
			if err == nil {
				break
			}
		}
	} else {
		err = exists(t.Context(), admin, object.GetNamespace(), annotations.Target(row.Target))
	}
	if err != nil {
		t.Errorf("%s: %v", object.GetName(), err)
	}
}

// grantsOf returns the rows of the DelegationGrants in the API.
func grantsOf(t *testing.T, admin client.Client) (rows []*multinet.Grant) {
	t.Helper()
	list := new(v1alpha1.DelegationGrantList)
	if err := admin.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		row, err := outside.DelegationGrant.Convert(&list.Items[i])
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// checkList requires a valid list, whose networks exist.
func checkList(t *testing.T, admin client.Client, list listOfPods) {
	t.Helper()
	text, _, err := annotations.InterfacesOf(list.annotations)
	if err != nil {
		t.Error(err)
	}
	selections, err := annotations.ParseNetworks(list.annotations[annotations.NetworksKey], list.namespace)
	if err != nil {
		t.Error(err)
	}
	for _, one := range selections {
		definition := new(unstructured.Unstructured)
		definition.SetGroupVersionKind(nadv1.SchemeGroupVersion.WithKind(multinet.KindDefinition))
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: one.Namespace, Name: one.Name}, definition); err != nil {
			t.Error(err)
		}
		lent := func(grant *multinet.Grant) bool { return grant.Lends(list.namespace, one.Namespace) }
		if one.Namespace != list.namespace && !slices.ContainsFunc(grantsOf(t, admin), lent) {
			t.Errorf("no DelegationGrant lends the definitions of %s to %s", one.Namespace, list.namespace)
		}
	}
	interfaces, err := annotations.ParseInterfaces(text)
	if err != nil || len(interfaces)+len(selections) == 0 {
		t.Errorf("%d interfaces in the list: %v\n%s", len(interfaces), err, text)
	}
	for _, one := range interfaces {
		if err := exists(t.Context(), admin, list.namespace, one.Target); err != nil {
			t.Errorf("%s %s: %v", one.Kind, one.Name, err)
		}
	}
}

func exists(ctx context.Context, c client.Client, namespace string, target annotations.Target) error {
	groups := []schema.GroupVersion{danmv1.GroupVersion, danmiov1.GroupVersion}
	switch target.Kind {
	case annotations.TargetVPC:
		groups, namespace = []schema.GroupVersion{v1alpha1.GroupVersion}, corev1.NamespaceAll
	case annotations.TargetClusterNetwork:
		namespace = corev1.NamespaceAll
	}
	var err error
	for _, group := range groups {
		object := new(unstructured.Unstructured)
		object.SetGroupVersionKind(group.WithKind(target.Kind))
		if err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: target.Name}, object); !apierrors.IsNotFound(err) {
			return err
		}
	}
	return err
}
