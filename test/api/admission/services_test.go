// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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

func TestExternalIPs_NoPoolGrant_Refused(t *testing.T) {
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
		{
			name:    "another one that is not",
			who:     clusterAdmin(),
			object:  held,
			edit:    func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.99"} },
			refused: refused,
		},
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

// TestSliceDomain_WriterNotOperator_Refused: a slice with a network's domain takes room in the
// tables of all nodes with pods there. Kubernetes copies labels from a Service, and from Endpoints,
// to slices.
func TestSliceDomain_WriterNotOperator_Refused(t *testing.T) {
	admin := start(t)
	establish(t, admin, namespace("slices", tenant("blue")))
	const refused = "the label alioth.dev/domain must not name a network outside of VPCs"
	meta := func(domain string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "slices", Name: "web", Labels: map[string]string{v1alpha1.DomainLabel: domain, discoveryv1.LabelServiceName: "web"}}
	}
	slice := func(domain string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: meta(domain), AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{}}
	}
	service := serviceAt("slices")
	service.ObjectMeta = meta("u1.net")
	inVPC := serviceAt("slices")
	inVPC.ObjectMeta = meta("blue")
	run(t, slices.Concat(
		creations(t, "a slice of a network, by a person", clusterAdmin(), slice("u1.net"), refused),
		creations(t, "a slice of a VPC", clusterAdmin(), slice("blue"), ""),
		creations(t, "a Service", clusterAdmin(), service, refused),
		creations(t, "a Service with a VPC", clusterAdmin(), inVPC, ""),
		creations(t, "Endpoints", clusterAdmin(), &corev1.Endpoints{ObjectMeta: meta("u1.net")}, refused), //nolint:staticcheck // Kubernetes mirrors them to slices
	))
	held, plain := slice("u1.net"), slice("blue")
	plain.Name = "plain"
	create(t, as(t, operator()), held)
	establish(t, admin, plain)
	runChanges(t, []change[*discoveryv1.EndpointSlice]{
		{
			name:    "a slice of a VPC becomes one of a network",
			who:     clusterAdmin(),
			object:  plain,
			edit:    func(s *discoveryv1.EndpointSlice) { s.Labels[v1alpha1.DomainLabel] = "u1.net" },
			refused: refused,
		},
		{
			name:    "another network",
			who:     clusterAdmin(),
			object:  held,
			edit:    func(s *discoveryv1.EndpointSlice) { s.Labels[v1alpha1.DomainLabel] = "u2.net" },
			refused: refused,
		},
		{
			name:    "another Service",
			who:     clusterAdmin(),
			object:  held,
			edit:    func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "mine" },
			refused: refused,
		},
		{name: "a finalizer", who: clusterAdmin(), object: held, edit: func(s *discoveryv1.EndpointSlice) { s.Finalizers = []string{"example.org/one"} }},
		{name: "it leaves the network", who: clusterAdmin(), object: held, edit: func(s *discoveryv1.EndpointSlice) { delete(s.Labels, v1alpha1.DomainLabel) }},
	})
}
