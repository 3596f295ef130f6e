// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func identityOf(number int32) *v1alpha1.PolicyIdentity {
	return &v1alpha1.PolicyIdentity{
		ObjectMeta: named(v1alpha1.PolicyIdentityName("v", uint32(number))),
		Spec:       v1alpha1.PolicyIdentitySpec{VPC: "v", Number: number, Namespace: "customer"},
	}
}

func TestPolicyIdentity_WrongValue_Refused(t *testing.T) {
	const tie = "metadata.name must be <spec.vpc>.<spec.number>"
	label := func(key, value string) v1alpha1.PolicyIdentityLabel {
		return v1alpha1.PolicyIdentityLabel{Key: key, Value: value}
	}
	longest := strings.Repeat("d", 253) + "/" + strings.Repeat("k", 63)
	identity := func() *v1alpha1.PolicyIdentity { return identityOf(4711) }
	checkCreations(t, identity, []creation[*v1alpha1.PolicyIdentity]{
		{"as it is", nil, ""},
		{"the least", func(i *v1alpha1.PolicyIdentity) { *i = *identityOf(v1alpha1.MinPolicyIdentity) }, ""},
		{"the greatest", func(i *v1alpha1.PolicyIdentity) { *i = *identityOf(v1alpha1.MaxPolicyIdentity) }, ""},
		{"a number with a fixed meaning", func(i *v1alpha1.PolicyIdentity) { *i = *identityOf(v1alpha1.MinPolicyIdentity - 1) }, "greater than or equal to 256"},
		{"more than 24 bits", func(i *v1alpha1.PolicyIdentity) { *i = *identityOf(v1alpha1.MaxPolicyIdentity + 1) }, "less than or equal to 16777215"},
		{"another number's name", func(i *v1alpha1.PolicyIdentity) { i.Name = "v.4712" }, tie},
		{"another VPC's name", func(i *v1alpha1.PolicyIdentity) { i.Name = "w.4711" }, tie},
		{"leading zeros", func(i *v1alpha1.PolicyIdentity) { i.Name = "v.04711" }, tie},
		{"no namespace", func(i *v1alpha1.PolicyIdentity) { i.Spec.Namespace = "" }, "spec.namespace"},
		{"the longest label", func(i *v1alpha1.PolicyIdentity) {
			i.Spec.Labels, i.Spec.Omitted = []v1alpha1.PolicyIdentityLabel{label(longest, strings.Repeat("v", 63)), label("empty", "")}, []string{longest}
		}, ""},
		{"the most labels", func(i *v1alpha1.PolicyIdentity) {
			for n := range 256 {
				i.Spec.Labels = append(i.Spec.Labels, label(fmt.Sprint("k", n), ""))
			}
		}, ""},
		{"too many labels", func(i *v1alpha1.PolicyIdentity) {
			for n := range 257 {
				i.Spec.Labels = append(i.Spec.Labels, label(fmt.Sprint("k", n), ""))
			}
		}, "spec.labels"},
		{"a key twice", func(i *v1alpha1.PolicyIdentity) {
			i.Spec.Labels = []v1alpha1.PolicyIdentityLabel{label("app", "a"), label("app", "b")}
		}, "Duplicate"},
		{"an omitted key twice", func(i *v1alpha1.PolicyIdentity) { i.Spec.Omitted = []string{"a", "a"} }, "Duplicate"},
	})
}

func TestPolicyIdentity_SpecChanged_Refused(t *testing.T) {
	c, object := newClient(t), identityOf(5000)
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	object.Spec.Omitted = []string{"app"}
	check(t, c.Update(t.Context(), object, client.DryRunAll), "a PolicyIdentity can't change")
}
