// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// notReady returns a condition as an operator would find it in a column.
func notReady(reason string) []metav1.Condition {
	return []metav1.Condition{{
		Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(time.Now()),
	}}
}

// row asks for an object as kubectl get does, and returns its cells by column.
func row(t *testing.T, path string) map[string]string {
	t.Helper()
	d := discovery.NewDiscoveryClientForConfigOrDie(server.Config(t))
	raw, err := d.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil || len(table.Rows) != 1 {
		t.Fatalf("table %s: %v", raw, err)
	}
	cells := map[string]string{}
	for i, column := range table.ColumnDefinitions {
		cells[column.Name] = fmt.Sprint(table.Rows[0].Cells[i])
	}
	return cells
}

func TestColumns_EachKind_ShowExpectedCells(t *testing.T) {
	c := newClient(t)
	vpc, subnet, network := vpc(), subnet(), network()
	vpc.Name, subnet.Name, network.Name, network.Namespace = "columns", "columns", "columns", "default"
	vpc.Status.VNI, vpc.Status.Conditions = 4711, notReady("VNITaken")
	subnet.Status.InUse, subnet.Status.Conditions = true, notReady("Overlap")
	network.Status.Tenant, network.Status.Conditions = "customer-a", notReady("VPCNotFound")
	create := func(object client.Object, status func() error) {
		held := object.DeepCopyObject().(client.Object)
		if err := c.Create(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Delete(context.WithoutCancel(t.Context()), held); err != nil {
				t.Error(err)
			}
		})
		object.SetResourceVersion(held.GetResourceVersion())
		if err := status(); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range []client.Object{vpc, subnet, network} {
		create(object, func() error { return c.Status().Update(t.Context(), object) })
	}
	free := int64(236)
	usage := &v1alpha1.Usage{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.UsageName(v1alpha1.UsageOfSubnet, "columns")},
		Spec:       v1alpha1.UsageSpec{Kind: v1alpha1.UsageOfSubnet, Name: "columns"},
		Status:     v1alpha1.UsageStatus{Used: 17, Free: &free, FreeText: "236"},
	}
	create(usage, func() error { return nil })
	address := addressOf("columns", "10.10.1.9")
	create(address, func() error { return nil })

	for path, want := range map[string]map[string]string{
		"/apis/alioth.dev/v1alpha1/vpcs/columns": {
			"VNI": "4711", "CIDRs": column(vpc.Spec.CIDRs), "Ready": "False", "Reason": "VNITaken",
		},
		"/apis/alioth.dev/v1alpha1/subnets/columns": {
			"VPC": subnet.Spec.VPC, "CIDRs": column(subnet.Spec.CIDRs), "InUse": "true", "Ready": "False", "Reason": "Overlap",
		},
		"/apis/arktos.futurewei.com/v1/namespaces/default/networks/columns": {
			"Type": network.Spec.Type, "VPC": network.Spec.VPCID, "Tenant": "customer-a", "Ready": "False", "Reason": "VPCNotFound",
		},
		"/apis/alioth.dev/v1alpha1/usages/" + usage.Name: {"Kind": "Subnet", "Of": "columns", "Used": "17", "Free": "236"},
		"/apis/alioth.dev/v1alpha1/addresses/" + address.Name: {
			"VPC": "columns", "IP": "10.10.1.9", "Subnet": "net1", "Node": "node-a", "Namespace": "customer-a", "Holder": "web-0",
		},
	} {
		got := row(t, path)
		for name := range got {
			if _, asked := want[name]; !asked {
				delete(got, name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("columns of %s (-want +got):\n%s", path, diff)
		}
	}
}

// definitions returns the definitions of all kinds.
func definitions(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	d := discovery.NewDiscoveryClientForConfigOrDie(server.Config(t))
	raw, err := d.RESTClient().Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := json.Unmarshal(raw, &list); err != nil || len(list.Items) == 0 {
		t.Fatalf("%d definitions: %v", len(list.Items), err)
	}
	return list.Items
}

// TestColumns_ListPath_Avoided: the API server shows the first result of a path alone.
func TestColumns_ListPath_Avoided(t *testing.T) {
	for _, definition := range definitions(t) {
		for _, version := range definition.Spec.Versions {
			for _, column := range version.AdditionalPrinterColumns {
				if strings.Contains(column.JSONPath, "[*]") {
					t.Errorf("%s: column %s has the path %s, and people see its first result alone", definition.Name, column.Name, column.JSONPath)
				}
			}
		}
	}
}

// TestListElements_Default_Absent: `kubectl apply` replaces whole lists, so it would find a
// difference for ever, and server-side apply a conflict with other writers.
func TestListElements_Default_Absent(t *testing.T) {
	const ofUpstream = ".spec.podNetworkConfigs[].podIPReservationSize" // its objects are stored with the default
	for _, definition := range definitions(t) {
		for _, version := range definition.Spec.Versions {
			for _, path := range defaultsInLists(version.Schema.OpenAPIV3Schema, "", false) {
				if path != ofUpstream {
					t.Errorf("%s: %s has a default", definition.Name, path)
				}
			}
		}
	}
}

// defaultsInLists returns the paths of fields with a default that are in a list.
func defaultsInLists(schema *apiextensionsv1.JSONSchemaProps, at string, inList bool) (paths []string) {
	if schema == nil {
		return nil
	}
	if inList && schema.Default != nil {
		paths = append(paths, at)
	}
	for name, property := range schema.Properties {
		paths = append(paths, defaultsInLists(&property, at+"."+name, inList)...)
	}
	if schema.Items != nil {
		paths = append(paths, defaultsInLists(schema.Items.Schema, at+"[]", true)...)
	}
	return paths
}

// column returns a list as a column shows it.
func column[S ~string](list []S) string {
	text, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// A name that kubectl accepts for a resource must mean one only: of two, it silently takes the
// first.
func TestShortNames_AllKinds_Unambiguous(t *testing.T) {
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(server.Config(t)).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	ours := regexp.MustCompile(`alioth\.dev|arktos\.futurewei\.com`)
	owners := map[string][]string{}
	short := 0
	for _, list := range lists {
		for _, r := range list.APIResources {
			names := append(slices.Clone(r.ShortNames), r.Name, r.SingularName)
			slices.Sort(names)
			for _, name := range slices.Compact(names) {
				owners[name] = append(owners[name], r.Name+" of "+list.GroupVersion)
			}
			if ours.MatchString(list.GroupVersion) {
				short += len(r.ShortNames)
			}
		}
	}
	if short == 0 {
		t.Error("none of Alioth's kinds has a short name")
	}
	for name, of := range owners {
		if len(of) > 1 && ours.MatchString(strings.Join(of, " ")) {
			t.Errorf("%q means %s", name, strings.Join(of, " and "))
		}
	}
}
