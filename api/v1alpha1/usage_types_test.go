// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func TestUsageName_EachName_ValidAndUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{
		"net1", "a.b.c", strings.Repeat("a", 246), strings.Repeat("a", 247), strings.Repeat("a", 246) + ".b", strings.Repeat("a.", 126) + "a",
	} {
		for _, kind := range []v1alpha1.UsageKind{v1alpha1.UsageOfSubnet, v1alpha1.UsageOfVPC} {
			got := v1alpha1.UsageName(kind, name)
			if wrong := validation.IsDNS1123Subdomain(got); len(wrong) > 0 || seen[got] {
				t.Errorf("the Usage of %s %s is %s (%v), which another one has: %v", kind, name, got, wrong, seen[got])
			}
			seen[got] = true
		}
	}
	if got := v1alpha1.UsageName(v1alpha1.UsageOfSubnet, "net1"); got != "subnet.net1" {
		t.Errorf("the Usage of net1 is %s, want subnet.net1", got)
	}
}
