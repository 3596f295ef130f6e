// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/api/chart"
	"github.com/alioth-net/alioth/test/needs"
)

// valuesFiles returns the files that people could give to helm; "" stands for a run without a file.
func valuesFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "values", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files with values: %v", err)
	}
	return append(files, "")
}

func orDefault(file string) string {
	if file == "" {
		return "default"
	}
	return file
}

func withFile(file string) []string {
	if file == "" {
		return nil
	}
	return []string{"--values", file}
}

// textOf renders the chart as text.
func textOf(t *testing.T, helm *chart.Helm, file string) string {
	t.Helper()
	args := append(append([]string{"template", chart.Release, "CHART", "--namespace", chart.Namespace}, chart.RequiredValues()...), withFile(file)...)
	text, err := helm.Run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestValuesFile_Rendered_AcceptedAndStable: helm lint accepts the file, and the API server accepts
// the objects that the chart renders with it. A second rendering is equal.
func TestValuesFile_Rendered_AcceptedAndStable(t *testing.T) {
	needs.Kubernetes(t)
	server, err := apiserver.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	c := newClient(t, server)
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chart.Namespace}}); err != nil {
		t.Fatal(err)
	}
	helm := chart.New(t, root, nil)
	for _, file := range valuesFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(orDefault(file)), ".yaml"), func(t *testing.T) {
			if _, err := helm.Run(t.Context(), append(append([]string{"lint", "--strict", "CHART"}, chart.RequiredValues()...), withFile(file)...)...); err != nil {
				t.Error(err)
			}
			text := textOf(t, helm, file)
			if diff := cmp.Diff(text, textOf(t, helm, file)); diff != "" {
				t.Errorf("a second rendering is another one (-first +second):\n%s", diff)
			}
			objects, err := chart.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range objects {
				applied := client.ApplyConfigurationFromUnstructured(object)
				if err := c.Apply(t.Context(), applied, client.DryRunAll, client.ForceOwnership, client.FieldOwner("test")); err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
			}
		})
	}
}

// versions returns the resource versions of the objects of the release, hooks aside.
func versions(t *testing.T, helm *chart.Helm, c client.Client) map[string]string {
	t.Helper()
	text, err := helm.Run(t.Context(), "get", "manifest", chart.Release, "--namespace", chart.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, object := range objects {
		live := new(unstructured.Unstructured)
		live.SetGroupVersionKind(object.GroupVersionKind())
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), live); err != nil {
			t.Fatal(err)
		}
		all[object.GetKind()+" "+object.GetName()] = live.GetResourceVersion()
	}
	return all
}

// TestUpgrade_ValuesUnchanged_NothingWritten has every area on, and the values that people set for
// pods. After the second upgrade the default VPC is an ordinary object of the release; the third
// one must not write.
func TestUpgrade_ValuesUnchanged_NothingWritten(t *testing.T) {
	server := bareServer(t)
	helm, c := chart.New(t, root, server.Config()), newClient(t, server)
	args := append(withFile(filepath.Join("testdata", "values", "everything.yaml")), withFile(filepath.Join("testdata", "values", "names.yaml"))...)
	for _, step := range []string{"an installation", "an upgrade that adopts the default VPC"} {
		upgrade(t, helm, step, args...)
	}
	before := versions(t, helm, c)
	upgrade(t, helm, "an upgrade that changes nothing", args...)
	if diff := cmp.Diff(before, versions(t, helm, c)); diff != "" || len(before) < 40 {
		t.Errorf("the upgrade changes objects (-before +after), %d in all:\n%s", len(before), diff)
	}
}

// TestNameValues_Set_ReferencedNamesKept gives other names by the values: policies, roles and tools
// refer to them.
func TestNameValues_Set_ReferencedNamesKept(t *testing.T) {
	helm := chart.New(t, root, nil)
	kinds := []string{
		"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionPolicyBinding", "FlowSchema", "PriorityLevelConfiguration",
	}
	var fixed map[string]bool // of the first values
	for _, values := range []struct{ set, begin string }{
		{"image.tag=x", "alioth-"}, {"nameOverride=net", "alioth-net-"}, {"nameOverride=lio", "alioth-"}, {"fullnameOverride=vpc", "vpc-"}, {"nameOverride=net,fullnameOverride=vpc", "vpc-"},
	} {
		set, begin := values.set, values.begin
		all, err := helm.Template(t.Context(), "--set", set)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		daemons, operators := map[string]*unstructured.Unstructured{}, map[string]*unstructured.Unstructured{}
		budgets := map[string]*unstructured.Unstructured{}
		for _, object := range all {
			if slices.Contains(kinds, object.GetKind()) {
				names[object.GetKind()+" "+object.GetName()] = true
			}
			if workloads := map[string]map[string]*unstructured.Unstructured{"DaemonSet": daemons, "Deployment": operators, "PodDisruptionBudget": budgets}[object.GetKind()]; workloads != nil {
				workloads[object.GetName()] = object
			}
		}
		if fixed == nil {
			fixed = names
		}
		if diff := cmp.Diff(fixed, names); diff != "" || len(names) < 40 {
			t.Errorf("%s changes names (-default +changed), %d in all:\n%s", set, len(names), diff)
		}
		if daemons[begin+"cnid"] == nil || operators[begin+"operator-0"] == nil || budgets[begin+"operator"] == nil {
			t.Errorf(
				"%s: workloads are %v %v %v, want names that begin with %s",
				set,
				slices.Collect(maps.Keys(daemons)),
				slices.Collect(maps.Keys(operators)),
				slices.Collect(maps.Keys(budgets)),
				begin,
			)
		}
		for _, workloads := range []map[string]*unstructured.Unstructured{daemons, operators} {
			for name, object := range workloads {
				labels, _, err := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "labels")
				account, _, _ := unstructured.NestedString(object.Object, "spec", "template", "spec", "serviceAccountName")
				if err != nil || labels["app.kubernetes.io/name"] != "alioth" || !slices.Contains([]string{"alioth-operator", "alioth-cnid"}, account) {
					t.Errorf("%s: pods of %s have labels %v and the account %s (%v)", set, name, labels, account, err)
				}
			}
		}
	}
}

// TestPodValues_Set_AppliedToWorkloads sets each value that people expect of a chart.
func TestPodValues_Set_AppliedToWorkloads(t *testing.T) {
	file := withFile(filepath.Join("testdata", "values", "names.yaml"))
	objects := rendered(t, "Deployment", file...)
	maps.Copy(objects, rendered(t, "DaemonSet", file...))
	if len(objects) != 4 {
		t.Fatalf("got %d workloads, want 3 operators and the daemon", len(objects))
	}
	for name, object := range objects {
		daemon := object.GetKind() == "DaemonSet"
		spec, _, err := unstructured.NestedMap(object.Object, "spec", "template", "spec")
		if err != nil {
			t.Fatal(err)
		}
		meta, _, _ := unstructured.NestedMap(object.Object, "spec", "template", "metadata")
		container := spec["containers"].([]any)[0].(map[string]any)
		environment := ""
		for _, one := range container["env"].([]any) {
			environment += one.(map[string]any)["name"].(string) + " "
		}
		for what, ok := range map[string]bool{
			"labels":      meta["labels"].(map[string]any)["team"] == "net",
			"annotations": meta["annotations"].(map[string]any)["example.com/owner"] == "team of the network",
			"priority":    daemon == (spec["priorityClassName"] == "net-critical") && (daemon || spec["priorityClassName"] == nil),
			"tolerations": daemon == (spec["tolerations"] == nil),
			"affinity":    spec["affinity"].(map[string]any)["nodeAffinity"] != nil,
			"secrets":     len(spec["imagePullSecrets"].([]any)) == 2,
			"image":       container["image"] == "registry.example.com:5000/net/alioth:v1.2.3",
			"limits":      container["resources"].(map[string]any)["limits"] != nil,
			"environment": strings.HasSuffix(environment, "NODE_NAME GOGC ") == daemon && strings.HasSuffix(environment, "POD_NAME GOMEMLIMIT GOMAXPROCS ") != daemon,
		} {
			if !ok {
				t.Errorf("%s: the %s are not those of the values: %v %v", name, what, meta, spec)
			}
		}
		if spread, _ := spec["topologySpreadConstraints"].([]any); !daemon {
			if len(spread) != 2 || len(spread[0].(map[string]any)["labelSelector"].(map[string]any)["matchLabels"].(map[string]any)) != 1 ||
				len(spread[1].(map[string]any)["labelSelector"].(map[string]any)["matchLabels"].(map[string]any)) != 2 {
				t.Errorf("%s: the spread is %v", name, spread)
			}
		}
	}
	if budget := rendered(t, "PodDisruptionBudget", file...)["alioth-net-operator"]; budget == nil {
		t.Error("there is no budget for disruptions")
	} else if most, _, _ := unstructured.NestedFieldNoCopy(budget.Object, "spec", "maxUnavailable"); most != "50%" {
		t.Errorf("the budget allows %v", most)
	}
	if left := rendered(t, "PodDisruptionBudget", "--set", "operator.podDisruptionBudget.enabled=false"); len(left) != 0 {
		t.Errorf("a budget that is off is rendered: %v", left)
	}
}
