// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inforce puts the chart's roles and admission policies in force on an API server of
// a test.
package inforce

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/chart"
	"github.com/alioth-net/alioth/test/waits"
)

// settleWithin bounds how long the API server may take to apply new policies. It looks for
// kinds that policies have as parameters every 30 s.
const settleWithin = time.Minute

// Install renders the chart in the project's root folder, with all areas. It creates the objects of
// the kinds that decide about requests, and returns when they are in force. The grants that the
// operator writes at its start are written as the operator. Each of values is an argument of helm's
// --set.
func Install(t testing.TB, root string, admin, operator client.Client, values ...string) {
	t.Helper()
	create(t, admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chart.Namespace}})
	arguments := []string{"--set", "nodeNetworkState.enabled=true,networkPolicies.enabled=true,nodeIPAM.enabled=true,nodeIPAM.infraSubnet=default"}
	for _, value := range values {
		arguments = append(arguments, "--set", value)
	}
	objects, err := chart.New(t, root, nil).Template(t.Context(), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, object := range objects {
		switch object.GroupVersionKind().Group {
		case rbacv1.GroupName, admissionregistrationv1.GroupName:
			create(t, admin, object)
			count++
		}
	}
	if count == 0 {
		t.Fatal("the chart renders neither roles nor policies")
	}
	aggregateRoles(t, admin)
	awaitPolicies(t, admin)
	awaitGrants(t, admin, operator)
}

// aggregateRoles does the work of a controller that does not run here: it fills Kubernetes' own
// roles with the rules of the roles that are labelled for them.
func aggregateRoles(t testing.TB, admin client.Client) {
	t.Helper()
	for _, name := range []string{"view", "edit", "admin"} { // each is a part of the next
		role := new(rbacv1.ClusterRole)
		if err := admin.Get(t.Context(), client.ObjectKey{Name: name}, role); err != nil {
			t.Fatal(err)
		}
		role.Rules = nil
		for _, selector := range role.AggregationRule.ClusterRoleSelectors {
			var parts rbacv1.ClusterRoleList
			if err := admin.List(t.Context(), &parts, client.MatchingLabels(selector.MatchLabels)); err != nil {
				t.Fatal(err)
			}
			for i := range parts.Items {
				role.Rules = append(role.Rules, parts.Items[i].Rules...)
			}
		}
		if err := admin.Update(t.Context(), role); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitPolicies returns when the policies created so far are in force. Policies take effect in the
// order of their creation, so it creates one more that refuses a certain name, and waits for a
// refusal.
func awaitPolicies(t testing.TB, admin client.Client) {
	t.Helper()
	const name = "refused-by-the-sentinel"
	match := &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{
				APIGroups:   []string{""},
				APIVersions: []string{"v1"},
				Resources:   []string{"configmaps"},
			},
		},
	}}}
	create(t, admin, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "zz-sentinel"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: match,
			Validations: []admissionregistrationv1.Validation{
				{Expression: fmt.Sprintf("object.metadata.name != %q", name)},
			},
		},
	})
	create(t, admin, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "zz-sentinel"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "zz-sentinel", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})
	eventually(t, func(ctx context.Context) error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if err := admin.Create(ctx, probe, client.DryRunAll); err == nil || !strings.Contains(err.Error(), name) {
			return fmt.Errorf("the sentinel does not refuse yet: %w", err)
		}
		return nil
	})
}

// awaitGrants writes the grants that the operator writes at its start, and returns when the API
// server applies them.
func awaitGrants(t testing.TB, admin, operator client.Client) {
	t.Helper()
	const name = "awaits-grants"
	for _, grants := range []string{v1alpha1.HostAccessGrants, v1alpha1.ExternalIPGrants, v1alpha1.TenantNetworkGrants} {
		create(t, operator, &v1alpha1.AdmissionGrants{ObjectMeta: metav1.ObjectMeta{Name: grants}})
	}
	create(
		t,
		admin,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.TenantLabel: name}}},
	)
	eventually(t, func(ctx context.Context) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "p"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}},
		}
		return admin.Create(ctx, pod, client.DryRunAll)
	})
}

func create(t testing.TB, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

// eventually repeats check until it returns nil.
func eventually(t testing.TB, check func(context.Context) error) {
	t.Helper()
	waits.Until(t, settleWithin, "the API server applies the policies", func() error { return check(t.Context()) })
}
