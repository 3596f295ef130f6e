// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/test/api/apiserver"
)

var server apiserver.Shared

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// resources maps each kind to its resource.
var resources = map[string]string{
	"NodeNetConfPolicy": "nodenetconfpolicies", "NodeNetworkConfigurationPolicy": "nodenetworkconfigurationpolicies",
	"NodeNetworkConfigurationEnactment": "nodenetworkconfigurationenactments", "NodeNetworkState": "nodenetworkstates",
}

// create makes an object from a manifest, which has no unknown fields.
func create(t *testing.T, manifest string) (*unstructured.Unstructured, dynamic.ResourceInterface, error) {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &object.Object); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(server.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	version := object.GroupVersionKind().GroupVersion()
	resource := client.Resource(version.WithResource(resources[object.GetKind()]))
	created, err := resource.Create(t.Context(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return created, resource, err
}

const (
	confPolicy   = "{apiVersion: nmstate.io/v1, kind: NodeNetConfPolicy, metadata: {name: p}, spec: "
	configPolicy = "{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {name: p}, spec: "
	betaPolicy   = "{apiVersion: nmstate.io/v1beta1, kind: NodeNetworkConfigurationPolicy, metadata: {name: p}, spec: "
)

func TestPolicy_WrongValue_Refused(t *testing.T) {
	for _, tt := range []struct{ name, manifest, want string }{
		{"a policy of the early design", confPolicy + "{matchRules: [{name: eth1, type: ethernet}, {vlanID: 7}], desiredState: {interfaces: [{mtu: 9000}]}, priority: -3, keepOnDelete: true, tolerations: [{operator: Exists}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: ['1']}]}]}}}}}", ""},
		{"autoconfig", confPolicy + "{autoconfig: {autoBonding: true}}}", "autoconfig is not supported"},
		{"no desired state", confPolicy + "{}}", "desiredState must be set"},
		{"LLDP", confPolicy + "{matchRules: [{lldp: {vlanIDList: [7]}}], desiredState: {}}}", "lldp is not supported"},
		{"a rule with nothing", confPolicy + "{matchRules: [{}], desiredState: {}}}", "a match rule must have a name, a type or a vlanID"},
		{"a VLAN that can't be", confPolicy + "{matchRules: [{vlanID: 4095}], desiredState: {}}}", "4094"},
		{"affinity to pods", confPolicy + "{affinity: {podAffinity: {}}, desiredState: {}}}", "podAffinity is not supported"},
		{"aversion to pods", configPolicy + "{affinity: {podAntiAffinity: {x: 1}}, desiredState: {}}}", "podAntiAffinity is not supported"},
		{"a desired state that is a text", confPolicy + "{desiredState: 'interfaces: []'}}", "must be of type object"},
		{"an unknown field", confPolicy + "{desiredState: {}, nodeSelectors: {}}}", "unknown field"},
		{"a policy of today", configPolicy + "{nodeSelector: {a: b}, capture: {base: 'interfaces.name==\"eth1\"'}, maxUnavailable: 3, desiredState: {interfaces: [{name: eth1, mtu: '{{ capture.base.interfaces.0.mtu }}'}]}}}", ""},
		{"a policy of today in its older version", betaPolicy + "{maxUnavailable: 30%, priority: 7, desiredState: {interfaces: [{name: eth1}]}}}", ""},
		{"a policy of today without anything", configPolicy + "{}}", ""},
		{"a maxUnavailable of words", configPolicy + "{maxUnavailable: half}}", "maxUnavailable must be a number or a percentage"},
		{"targets", configPolicy + "{reach: [192.0.2.10, '192.0.2.10:65535', storage.example.com, 'a_b.c:1', '2001:db8::1', '[2001:db8::1]', '[2001:db8::1]:6443', 'storage.', '10.0.224.1', localhost]}}", ""},
		{"targets of a policy of the early design", confPolicy + "{reach: [storage], desiredState: {}}}", ""},
		{"a target with a scheme", configPolicy + "{reach: ['https://storage']}}", "want HOST or HOST:PORT"},
		{"a target of a network", configPolicy + "{reach: [192.0.2.0/24]}}", "want HOST or HOST:PORT"},
		{"a port that can't be", configPolicy + "{reach: ['storage:65536']}}", "want HOST or HOST:PORT"},
		{"the port 0", configPolicy + "{reach: ['storage:0']}}", "want HOST or HOST:PORT"},
		{"a target with a space", configPolicy + "{reach: ['a b']}}", "want HOST or HOST:PORT"},
		{"a target with two lines", configPolicy + "{reach: [\"a\\nb\"]}}", "want HOST or HOST:PORT"},
		{"a multicast address", configPolicy + "{reach: ['224.0.0.1']}}", "want the address of one host"},
		{"a multicast address of IPv6", configPolicy + "{reach: ['[ff02::1]:80']}}", "want the address of one host"},
		{"a broadcast address", configPolicy + "{reach: ['255.255.255.255']}}", "want the address of one host"},
		{"no address", configPolicy + "{reach: ['::']}}", "want the address of one host"},
		{"no address of IPv4", configPolicy + "{reach: ['0.0.0.0:80']}}", "want the address of one host"},
		{"a target twice", configPolicy + "{reach: [a, a]}}", "Duplicate value"},
		{"too many targets", configPolicy + "{reach: [a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17]}}", "must have at most 16 items"},
		{"a long target", configPolicy + "{reach: [" + strings.Repeat("a", 257) + "]}}", "may not be more than 256"},
		{"a negative maxUnavailable", configPolicy + "{maxUnavailable: -1}}", "maxUnavailable must be a number or a percentage"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			created, resource, err := create(t, tt.manifest)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				remove(t, resource, created)
				return
			}
			if err == nil {
				remove(t, resource, created)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func remove(t *testing.T, resource dynamic.ResourceInterface, object *unstructured.Unstructured) {
	t.Helper()
	if err := resource.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// TestPolicy_BothVersions_SameObject has fields of the desired state that no schema knows.
func TestPolicy_BothVersions_SameObject(t *testing.T) {
	created, resource, err := create(t, betaPolicy+"{nodeSelector: {a: b}, desiredState: {interfaces: [{name: eth1, 802.1x: {identity: x}}]}}}")
	if err != nil {
		t.Fatal(err)
	}
	defer remove(t, resource, created)
	client, err := dynamic.NewForConfig(server.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.Resource(nmstatev1.GroupVersion.WithResource("nodenetworkconfigurationpolicies")).Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var policy nmstatev1.NodeNetworkConfigurationPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &policy); err != nil {
		t.Fatal(err)
	}
	if got := string(policy.Spec.DesiredState.Raw); policy.Spec.NodeSelector["a"] != "b" || got != `{"interfaces":[{"802.1x":{"identity":"x"},"name":"eth1"}]}` {
		t.Errorf("got %v and %s", policy.Spec.NodeSelector, got)
	}
}

func TestStateAndEnactment_Status_KeptUnchanged(t *testing.T) {
	state, resource, err := create(t, "{apiVersion: nmstate.io/v1beta1, kind: NodeNetworkState, metadata: {name: node-1}}")
	if err != nil {
		t.Fatal(err)
	}
	defer remove(t, resource, state)
	if managed, found, err := unstructured.NestedBool(state.Object, "spec", "managed"); !managed || !found || err != nil {
		t.Errorf("a state without a spec is managed: got %v, %v, %v", managed, found, err)
	}
	var typed v1beta1.NodeNetworkState
	convert(t, state, &typed)
	typed.Status = v1beta1.NodeNetworkStateStatus{
		CurrentState: &runtime.RawExtension{Raw: []byte(`{"interfaces":[{"name":"eth1","new":{"a":1}}]}`)},
		Owners:       []v1beta1.Owner{{Path: "interfaces[eth1].mtu", Owner: v1beta1.ManualOwner}},
		Refused:      strings.Repeat("x", v1beta1.MaxRefused),
	}
	if got, err := updateStatus(t, resource, &typed); err != nil {
		t.Fatal(err)
	} else if text := string(encode(t, got.Object["status"])); !strings.Contains(text, `"new":{"a":1}`) || !strings.Contains(text, "interfaces[eth1].mtu") {
		t.Errorf("the status is %s", text)
	}
	typed.Status.Refused += "x"
	if _, err := updateStatus(t, resource, &typed); err == nil || !strings.Contains(err.Error(), "status.refused") {
		t.Errorf("a long text: got %v", err)
	}
	typed.Status.Refused = ""
	typed.Status.Owners = make([]v1beta1.Owner, v1beta1.MaxOwners+1)
	if _, err := updateStatus(t, resource, &typed); err == nil || !strings.Contains(err.Error(), "status.owners") {
		t.Errorf("many owners: got %v", err)
	}
}

func TestEnactment_Slot_StoredWithExpiry(t *testing.T) {
	manifest := "{apiVersion: nmstate.io/v1beta1, kind: NodeNetworkConfigurationEnactment, metadata: {name: " + v1beta1.EnactmentName(
		"node-1",
		nmstatev1.NodeNetworkConfigurationPolicyKind,
		"p",
	) + "}}"
	created, resource, err := create(t, manifest)
	if err != nil {
		t.Fatal(err)
	}
	defer remove(t, resource, created)
	var typed v1beta1.NodeNetworkConfigurationEnactment
	convert(t, created, &typed)
	expires := metav1.NowMicro()
	typed.Status.Slot = &v1beta1.Slot{Holder: "node-1", Expires: expires}
	typed.Status.CapturedStates = map[string]v1beta1.CapturedState{"base": {State: &runtime.RawExtension{Raw: []byte(`{"a":[1]}`)}}}
	got, err := updateStatus(t, resource, &typed)
	if err != nil {
		t.Fatal(err)
	}
	var back v1beta1.NodeNetworkConfigurationEnactment
	convert(t, got, &back)
	if slot := back.Status.Slot; slot == nil || !slot.Expires.Equal(&expires) && slot.Expires.Sub(expires.Time).Abs().Microseconds() > 1 {
		t.Errorf("the slot is %v, want one until %v", slot, expires)
	}
	if got := string(back.Status.CapturedStates["base"].State.Raw); got != `{"a":[1]}` {
		t.Errorf("the captured state is %s", got)
	}
	typed.Status.Slot.Holder = ""
	if _, err := updateStatus(t, resource, &typed); err == nil || !strings.Contains(err.Error(), "status.slot.holder") {
		t.Errorf("a slot of nobody: got %v", err)
	}
}

// TestNodeReport_TooLong_Refused: every watcher gets the texts of a node's daemon, and a token may
// write any.
func TestNodeReport_TooLong_Refused(t *testing.T) {
	for _, name := range []string{"nodenetworkstates", "nodenetworkconfigurationenactments"} {
		data, err := os.ReadFile("../../../helm/alioth/files/crds/nmstate.io_" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(data, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			unbounded(t, name+".status", version.Schema.OpenAPIV3Schema.Properties["status"])
		}
	}
	for _, kind := range []string{"NodeNetworkState", "NodeNetworkConfigurationEnactment"} {
		object, resource, err := create(t, "{apiVersion: nmstate.io/v1beta1, kind: "+kind+", metadata: {name: node-1.said}}")
		if err != nil {
			t.Fatal(err)
		}
		defer remove(t, resource, object)
		for _, tt := range []struct {
			name            string
			count, messages int
			want            string
		}{
			{"what is permitted", 8, 1024, ""},
			{"a long message", 1, 1025, "a message of 1024 characters at most"},
			{"many conditions", 9, 0, "must have at most 8 items"},
		} {
			conditions := make([]any, tt.count)
			for i := range conditions {
				conditions[i] = map[string]any{
					"type": "T" + strconv.Itoa(i), "status": "True", "reason": "R", "message": strings.Repeat("x", tt.messages),
					"lastTransitionTime": "2026-01-02T03:04:05Z",
				}
			}
			object.Object["status"] = map[string]any{"conditions": conditions}
			_, err := updateStatus(t, resource, object.Object)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s, %s: got %v, want %q", kind, tt.name, err, tt.want)
			}
		}
	}
}

// unbounded reports texts and lists of a schema without a limit. Documents of networks, whose
// fields no schema knows, are not followed.
func unbounded(t *testing.T, path string, schema apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	switch {
	case schema.Type == "string" && schema.MaxLength == nil && schema.Format == "" && len(schema.Enum) == 0:
		t.Errorf("%s is a text of any length", path)
	case schema.Type == "array" && schema.MaxItems == nil:
		t.Errorf("%s is a list of any length", path)
	case schema.AdditionalProperties != nil && schema.MaxProperties == nil:
		t.Errorf("%s has any number of fields", path)
	}
	for name, property := range schema.Properties {
		unbounded(t, path+"."+name, property)
	}
	if schema.Items != nil {
		unbounded(t, path+"[]", *schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil {
		unbounded(t, path+"[*]", *schema.AdditionalProperties.Schema)
	}
}

func TestScheme_NmstateKinds_AllKnown(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{nmstatev1.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []schema.GroupVersionKind{
		nmstatev1.GroupVersion.WithKind("NodeNetConfPolicy"), nmstatev1.GroupVersion.WithKind("NodeNetworkConfigurationPolicy"),
		v1beta1.GroupVersion.WithKind("NodeNetworkConfigurationPolicyList"), v1beta1.GroupVersion.WithKind("NodeNetworkState"),
		v1beta1.GroupVersion.WithKind("NodeNetworkConfigurationEnactment"),
	} {
		if !scheme.Recognizes(want) {
			t.Errorf("it does not know %s", want)
		}
	}
}

func convert(t *testing.T, from *unstructured.Unstructured, to any) {
	t.Helper()
	if err := json.Unmarshal(encode(t, from.Object), to); err != nil {
		t.Fatal(err)
	}
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func updateStatus(t *testing.T, resource dynamic.ResourceInterface, object any) (*unstructured.Unstructured, error) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(encode(t, object), &u.Object); err != nil {
		t.Fatal(err)
	}
	latest, err := resource.Get(t.Context(), u.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	u.SetResourceVersion(latest.GetResourceVersion())
	return resource.UpdateStatus(t.Context(), u, metav1.UpdateOptions{})
}
