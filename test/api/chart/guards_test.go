// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestAdmissionPolicies_AreaOff_InstalledKindsGuarded switches areas off. The kinds that the chart
// still installs have the same policies as before: operator and daemons still follow such kinds.
func TestAdmissionPolicies_AreaOff_InstalledKindsGuarded(t *testing.T) {
	const on = areaOn + "," + nodeIPAMOn + ",scaledEndpoints.enabled=true"
	all := guarded(t, on)
	if len(all) == 0 {
		t.Fatal("no policy guards a kind")
	}
	for _, off := range []string{"multiNetwork.enabled=false", "nodeNetworkState.enabled=false", "nodeIPAM.enabled=false", "scaledEndpoints.enabled=false"} {
		set := on + "," + off
		kinds, left := installedKinds(t, set), guarded(t, set)
		for name, resources := range all {
			for resource := range resources {
				if kinds[resource] && !left[name][resource] {
					t.Errorf("%s: the chart installs %s, and policy %s does not guard it", off, resource, name)
				}
			}
		}
	}
}

// installedKinds returns the resources of the CRDs as group/plural.
func installedKinds(t *testing.T, set string) map[string]bool {
	t.Helper()
	kinds := map[string]bool{}
	for _, crd := range rendered(t, "CustomResourceDefinition", "--set", set) {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		kinds[group+"/"+plural] = true
	}
	return kinds
}

// guarded returns the resources of the rules of each policy that refuses, as group/resource.
func guarded(t *testing.T, set string) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	for name, policy := range rendered(t, "ValidatingAdmissionPolicy", "--set", set) {
		if failure, _, _ := unstructured.NestedString(policy.Object, "spec", "failurePolicy"); failure != "Fail" {
			continue
		}
		rules, _, err := unstructured.NestedSlice(policy.Object, "spec", "matchConstraints", "resourceRules")
		if err != nil {
			t.Fatal(err)
		}
		all[name] = map[string]bool{}
		for _, rule := range rules {
			fields := rule.(map[string]any)
			groups, _, _ := unstructured.NestedStringSlice(fields, "apiGroups")
			resources, _, _ := unstructured.NestedStringSlice(fields, "resources")
			for _, group := range groups {
				for _, resource := range resources {
					all[name][group+"/"+resource] = true
				}
			}
		}
	}
	return all
}
