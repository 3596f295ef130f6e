// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func serviceAt(namespace string, ips ...string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: ips},
	}
}

func TestExternalIPsAreThoseThatAPoolGrants(t *testing.T) {
	admin := start(t)
	establish(t, admin, namespace("external-blue", tenant("blue")))
	establish(t, admin, namespace("external-plain", nil))
	grants := published(t, v1alpha1.ExternalIPGrants)
	const refused = "no ExternalPool with use: ExternalIPs grants "
	eventually(t, func(ctx context.Context) error {
		return wantRefused(admin.Create(ctx, serviceAt("external-blue", "192.0.2.1"), client.DryRunAll), refused+`192.0.2.1 to the tenant "blue"`)
	})
	grants.ExternalIPs = []v1alpha1.ExternalIPGrant{
		{Pool: "edge.v4", CIDRs: []string{"192.0.2.0/30", "192.0.2.8/32"}, Tenants: []string{"red", "blue"}},
		{Pool: "six", CIDRs: []string{"2001:db8::/64"}, Tenants: []string{"ns:external-plain"}},
		{Pool: "all", CIDRs: []string{"198.51.100.7/32"}, Tenants: []string{"*"}},
		{Pool: "plain", CIDRs: []string{"198.51.100.8/32"}, Tenants: []string{"ns:*"}},
	}
	publish(t, grants)
	eventually(t, func(ctx context.Context) error {
		return admin.Create(ctx, serviceAt("external-blue", "192.0.2.1"), client.DryRunAll)
	})
	run(t, slices.Concat(
		creations(t, "of two pools", clusterAdmin(), serviceAt("external-blue", "192.0.2.8", "198.51.100.7"), ""),
		creations(t, "of a namespace without a label", clusterAdmin(), serviceAt("external-plain", "2001:db8::7", "198.51.100.7"), ""),
		creations(t, "of a pool for such namespaces", clusterAdmin(), serviceAt("external-plain", "198.51.100.8"), ""),
		creations(t, "of that pool, with a label", clusterAdmin(), serviceAt("external-blue", "198.51.100.8"), refused),
		creations(t, "of none", clusterAdmin(), serviceAt("external-plain"), ""),
		creations(t, "of another tenant's pool", clusterAdmin(), serviceAt("external-plain", "192.0.2.1"), refused+`192.0.2.1 to the tenant "ns:external-plain"`),
		creations(t, "one of two outside", clusterAdmin(), serviceAt("external-blue", "192.0.2.8", "192.0.2.9"), refused+`192.0.2.9 to the tenant "blue"`),
		creations(t, "of a word", clusterAdmin(), serviceAt("external-blue", "web"), "spec.externalIPs"),
	))
	held := serviceAt("external-blue", "192.0.2.1")
	establish(t, admin, held)
	runChanges(t, []change[*corev1.Service]{
		{name: "another one that is granted", who: clusterAdmin(), object: held, edit: func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.2"} }},
		{name: "another one that is not", who: clusterAdmin(), object: held, edit: func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.99"} }, refused: refused},
	})
	grants.ExternalIPs = nil
	publish(t, grants)
	eventually(t, func(ctx context.Context) error {
		return wantRefused(admin.Create(ctx, serviceAt("external-plain", "198.51.100.7"), client.DryRunAll), refused)
	})
	runChanges(t, []change[*corev1.Service]{
		{name: "a label of one whose grant has ended", who: clusterAdmin(), object: held, edit: func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }},
		{name: "and it gives them up", who: clusterAdmin(), object: held, edit: func(s *corev1.Service) { s.Spec.ExternalIPs = nil }},
	})
}
