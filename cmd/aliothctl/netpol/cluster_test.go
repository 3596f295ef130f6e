// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netpol

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cmd/aliothctl/netpol/judgement"
	"github.com/alioth-net/alioth/cmd/aliothctl/options"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/waits"
)

// TestExplain_RealAPI_ObjectsRead: the API server of the test has no ClusterNetworkPolicies and no
// MultiNetworkPolicies.
func TestExplain_RealAPI_ObjectsRead(t *testing.T) {
	config := apiserver.Start(t)
	api, err := options.NewClient(config, discoveryv1.AddToScheme, networkingv1.AddToScheme, rbacv1.AddToScheme)
	if err != nil {
		t.Fatal(err)
	}
	shop := metav1.ObjectMeta{Namespace: "shop"}
	named := func(name string, labels map[string]string) metav1.ObjectMeta {
		meta := shop
		meta.Name, meta.Labels = name, labels
		return meta
	}
	create(t, api, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	if err := api.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: named("default", nil)}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	ready := true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: named("db-1", map[string]string{discoveryv1.LabelServiceName: "db"}), AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Port: new(int32(15432))}},
	}
	for name, ip := range map[string]string{"cart": "10.0.0.1", "db": "10.0.0.2"} {
		pod := &corev1.Pod{ObjectMeta: named(name, map[string]string{"app": name})}
		pod.Spec = corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: name, Image: name}}}
		create(t, api, pod)
		create(t, api, &v1alpha1.Address{
			ObjectMeta: metav1.ObjectMeta{Name: "blue." + ip},
			Spec: v1alpha1.AddressSpec{
				VPC: "blue", Subnet: "net1", IP: ip, MAC: "02:00:0a:00:00:0" + ip[7:], Node: "node1", Attachment: "eth0", Set: []string{ip},
				Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "shop", Name: name, UID: string(pod.UID)},
			},
		})
		if name == "db" {
			slice.Endpoints = []discoveryv1.Endpoint{{
				Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: name},
			}}
		}
	}
	service := &corev1.Service{ObjectMeta: named("db", nil), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}}}
	create(t, api, service)
	create(t, api, slice)
	create(t, api, &networkingv1.NetworkPolicy{
		ObjectMeta: named("db", nil),
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}},
	})
	for _, to := range []string{"shop/db:15432", "10.0.0.2:15432", "svc/shop/db:5432", service.Spec.ClusterIP + ":5432"} {
		a, err := askAPI(t.Context(), config, "shop/cart", to)
		if err != nil || a.Verdict != judgement.Refused || a.Paths[0].Ingress.Policy != "NetworkPolicy shop/db" || a.Paths[0].Port != "15432/TCP" {
			t.Errorf("%s: %+v, %v", to, a, err)
		}
	}
	if a, err := askAPI(t.Context(), config, "shop/db", "203.0.113.1:443"); err != nil || a.Verdict != judgement.Allowed || len(a.Notes) > 0 {
		t.Errorf("an address outside: %+v, %v", a, err)
	}
	if _, err := askAPI(t.Context(), config, "shop/none", "shop/db:80"); err == nil || err.Error() != "the cluster has no Pod shop/none" {
		t.Errorf("a missing pod: %v", err)
	}
	testRights(t, config, api)
	testLint(t, config, api)
}

// testRights gives a user the rights one by one, and asks each time.
func testRights(t *testing.T, config *rest.Config, api client.Client) {
	t.Helper()
	user := rest.CopyConfig(config)
	user.Impersonate.UserName = "somebody"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "somebody"}}
	create(t, api, role)
	create(t, api, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "somebody"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "somebody"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "somebody"}},
	})
	for _, c := range []struct{ lacks, group, resource, verb string }{
		{"get pods in namespace shop", "", "pods", "get"},
		{"get namespaces", "", "namespaces", "get"},
		{"list addresses.alioth.dev", "alioth.dev", "addresses", "list"},
		{"list networkpolicies.networking.k8s.io in namespace shop", "networking.k8s.io", "networkpolicies", "list"},
	} {
		askUntil(t, user, "you lack the right to "+c.lacks)
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{c.group}, Resources: []string{c.resource}, Verbs: []string{c.verb}})
		if err := api.Update(t.Context(), role); err != nil {
			t.Fatal(err)
		}
	}
	askUntil(t, user, "")
}

// askUntil asks until the answer is refused for the want of a right, or given where want is "": the
// API server takes a moment to see new rights.
func askUntil(t *testing.T, config *rest.Config, want string) {
	t.Helper()
	waits.Until(t, 30*time.Second, "the answer "+want, func() error {
		a, err := askAPI(t.Context(), config, "shop/cart", "shop/db:15432")
		switch {
		case want == "" && err == nil && a.Verdict == judgement.Refused, want != "" && err != nil && strings.HasPrefix(err.Error(), want):
			return nil
		}
		return fmt.Errorf("%+v, %w", a, err)
	})
}

func askAPI(ctx context.Context, config *rest.Config, from, to string) (*judgement.Answer, error) {
	var e explaining
	q, err := e.question(from, to)
	if err != nil {
		return nil, err
	}
	o := judgement.New()
	r, err := newReader(o, config)
	if err != nil {
		return nil, err
	}
	if err := r.read(ctx, q); err != nil {
		return nil, err
	}
	return o.Explain(q)
}

// testLint reviews a policy whose port has another name, whose peers are the pods' own range.
func testLint(t *testing.T, config *rest.Config, api client.Client) {
	t.Helper()
	create(t, api, &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "blue"}, Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.0.0.0/24"}}})
	create(t, api, &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "range"},
		Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/28"}}},
		}}},
	})
	for _, namespace := range []string{"", "shop"} {
		o := judgement.New()
		r, err := newReader(o, config)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.all(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		var read []string
		if namespace != "" {
			read = []string{namespace}
		}
		review := o.Lint(read)
		if review.Policies != 2 || len(review.Findings) != 1 || review.Findings[0].Policy != "NetworkPolicy shop/range" || review.Findings[0].Reason != "RangeInVPC" {
			t.Errorf("with the pods of namespace %q: %+v", namespace, review)
		}
	}
}

func create(t *testing.T, api client.Client, object client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}
