// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"encoding/json"
	"fmt"
	"path"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/nmstate/document"
	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/capture"
	nmtarget "github.com/alioth-net/alioth/cnid/nmstate/target"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// nodeNetworkGuides are the documents about the networks of nodes.
var nodeNetworkGuides = []string{"operate/node-network-state.md", "operate/node-network-policies.md", "migrate/nmstate.md"}

// guideNode is the current state of a node, as the guides have nodes.
const guideNode = `
interfaces:
- {name: eth0, type: ethernet, state: up, mtu: 1500, mac-address: '02:00:00:00:00:10', ipv4: {enabled: true, address: [{ip: 192.0.2.11, prefix-length: 24}]}}
- {name: eth1, type: ethernet, state: up, mtu: 1500}
- {name: eth2, type: ethernet, state: up, mtu: 1500}
- {name: eth3, type: ethernet, state: up, mtu: 1500, ethernet: {sr-iov: {total-vfs: 0, vfs: []}}}
routes:
  running: [{destination: 0.0.0.0/0, next-hop-interface: eth0, next-hop-address: 192.0.2.1}]
  config: [{destination: 0.0.0.0/0, next-hop-interface: eth0, next-hop-address: 192.0.2.1}]
`

// guideExamples returns the YAML documents of a guide in its order.
func guideExamples(t *testing.T, name string) (all []map[string]any) {
	t.Helper()
	for _, block := range yamlBlock.FindAllStringSubmatch(readGuide(t, name), -1) {
		all = append(all, documentsOf(t, block[1])...)
	}
	if len(all) == 0 {
		t.Fatal("the document has no example")
	}
	return all
}

// TestGuidePolicies_RenderedForNode_StatesResolved renders each policy for a node, and resolves its
// desired state against the node's current state.
func TestGuidePolicies_RenderedForNode_StatesResolved(t *testing.T) {
	current, node := currentOfGuides(t)
	for _, name := range nodeNetworkGuides {
		t.Run(path.Base(name), func(t *testing.T) {
			for _, content := range guideExamples(t, name) {
				object := &unstructured.Unstructured{Object: content}
				text, err := json.Marshal(desiredOfGuide(t, object, node))
				if err != nil {
					t.Fatal(err)
				}
				desired, err := document.ParseJSON(text)
				if err == nil {
					_, err = nmtarget.Resolve(desired, current)
				}
				if err != nil || len(text) < len(`{"a":{}}`) {
					t.Errorf("%s %s: %v in %s", object.GetKind(), object.GetName(), err, text)
				}
			}
		})
	}
}

func currentOfGuides(t *testing.T) (*document.State, map[string]any) {
	t.Helper()
	current, err := document.Parse([]byte(guideNode))
	if err != nil {
		t.Fatal(err)
	}
	node := map[string]any{}
	if err := yaml.Unmarshal([]byte(guideNode), &node); err != nil {
		t.Fatal(err)
	}
	return current, node
}

// desiredOfGuide returns the state that an object, or a state document, desires of a node.
func desiredOfGuide(t *testing.T, object *unstructured.Unstructured, current map[string]any) map[string]any {
	t.Helper()
	var row *nmstate.Policy
	var err error
	switch object.GetKind() {
	case "":
		return object.Object
	case "NodeNetworkState":
		desired, _, err := unstructured.NestedMap(object.Object, "spec", "desiredState")
		if err != nil {
			t.Fatal(err)
		}
		return desired
	case nmstatev1.NodeNetConfPolicyKind:
		row, err = nmstateapi.NodeNetConfPolicy.Convert(typedExample[nmstatev1.NodeNetConfPolicy](t, object))
	case nmstatev1.NodeNetworkConfigurationPolicyKind: // both versions have the same fields
		row, err = nmstateapi.NodeNetworkConfigurationPolicy.Convert(typedExample[nmstatev1.NodeNetworkConfigurationPolicy](t, object))
	default:
		err = fmt.Errorf("%s is no kind of the guides", object.GetKind())
	}
	if err != nil || row.Fault != "" {
		t.Fatalf("%s: %v %v", object.GetName(), err, row)
	}
	return renderedExample(t, row, current)
}

func typedExample[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
		t.Fatalf("%s: %v", object.GetName(), err)
	}
	return typed
}

func renderedExample(t *testing.T, row *nmstate.Policy, current map[string]any) map[string]any {
	t.Helper()
	captured, err := capture.Evaluate(row.Capture, current, nil)
	if err != nil {
		t.Fatalf("%s: %v", row.Spec, err)
	}
	spec := row.Spec
	if spec.Desired, err = capture.Render(spec.Desired, captured); err != nil {
		t.Fatalf("%s: %v", row.Spec, err)
	}
	desired, matched, err := policy.Instantiate(spec, policy.Node{Name: "node1", Current: current})
	if err != nil || len(spec.Match) > 0 && len(matched) == 0 {
		t.Fatalf("%s: %v matches %v", row.Spec, err, matched)
	}
	return desired
}

// TestNodeNetworkGuides_Manifests_Accepted creates the objects of each document with strict field
// validation.
func TestNodeNetworkGuides_Manifests_Accepted(t *testing.T) {
	admin := start(t)
	created := 0
	for _, name := range nodeNetworkGuides {
		for _, content := range guideExamples(t, name) {
			if object := (&unstructured.Unstructured{Object: content}); object.GetKind() != "" {
				createExample(t, admin, object)
				created++
			}
		}
	}
	if created == 0 {
		t.Error("the documents have no manifest")
	}
}
