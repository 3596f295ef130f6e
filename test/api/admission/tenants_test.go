// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

func tenant(name string) map[string]string {
	return map[string]string{v1alpha1.TenantLabel: name}
}

func labelled(labels map[string]string) func(*corev1.Namespace) {
	return func(ns *corev1.Namespace) { ns.Labels = labels }
}

func TestTenantLabel_WithoutAssignRight_Refused(t *testing.T) {
	admin := start(t)
	alice, clerk := person("label-alice"), person("label-clerk")
	namespaces := rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"namespaces", "namespaces/status", "namespaces/finalize"},
		Verbs: []string{"get", "create", "update", "patch", "delete"},
	}
	assign := rbacv1.PolicyRule{
		APIGroups: []string{"alioth.dev"}, Resources: []string{"tenants"}, Verbs: []string{"assign"}, ResourceNames: []string{"blue"},
	}
	grantRules(t, admin, alice, "label-namespaces", namespaces)
	grantRules(t, admin, clerk, "label-blue", namespaces, assign)
	establish(t, admin, namespace("label-plain", nil))
	establish(t, admin, namespace("label-blue", tenant("blue")))
	establish(t, admin, namespace("label-red", tenant("red")))
	editor, owner := person("label-editor"), person("label-owner")
	grantIn(t, admin, "label-plain", editor, "edit")
	grantIn(t, admin, "label-plain", owner, "admin")

	created := func(labels map[string]string) *corev1.Namespace { return namespace("label-new", labels) }
	run(t, slices.Concat(
		creations(t, "a namespace with a tenant is refused without the right", alice, created(tenant("blue")), `may not give a namespace to the tenant "blue"`),
		creations(t, "a namespace without a tenant needs no right", alice, created(nil), ""),
		creations(t, "an empty tenant is none", alice, created(tenant("")), ""),
		creations(t, "who may assign the tenant creates with it", clerk, created(tenant("blue")), ""),
		creations(t, "but with no other", clerk, created(tenant("red")), `may not give a namespace to the tenant "red"`),
		creations(t, "an administrator creates with any", clusterAdmin(), created(tenant("red")), ""),
		[]attempt{{"a tenant's namespace is deleted by who may delete namespaces", alice, func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, namespace("label-blue", nil), client.DryRunAll)
		}, ""}},
	))
	plain, blue, red := namespace("label-plain", nil), namespace("label-blue", nil), namespace("label-red", nil)
	const give, take = `may not give a namespace to the tenant "blue"`, `may not take a namespace from the tenant "blue"`
	type relabel = change[*corev1.Namespace]
	runChanges(t, []relabel{
		{name: "setting the label is refused", who: alice, object: plain, edit: labelled(tenant("blue")), refused: give},
		{name: "so it is through the status", who: alice, object: plain, through: "status", edit: labelled(tenant("blue")), refused: give},
		{name: "and through finalize", who: alice, object: plain, through: "finalize", edit: labelled(tenant("blue")), refused: give},
		{name: "removing the label is refused", who: alice, object: blue, edit: labelled(nil), refused: take},
		// The writer of a status owns no field that was applied to the object.
		{name: "so it is through the status", who: alice, object: blue, through: "status", edit: labelled(nil), refused: take, except: byApply},
		{name: "and through finalize", who: alice, object: blue, through: "finalize", edit: labelled(nil), refused: take},
		{name: "emptying the label is removing it", who: alice, object: blue, edit: labelled(tenant("")), refused: take},
		{
			name:   "another label of a tenant's namespace is nobody's business",
			who:    alice,
			object: blue,
			edit:   labelled(map[string]string{v1alpha1.TenantLabel: "blue", "team": "x"}),
		},
		{name: "who may assign the tenant sets it", who: clerk, object: plain, edit: labelled(tenant("blue"))},
		{name: "and removes it", who: clerk, object: blue, edit: labelled(nil)},
		{name: "but gives to no other", who: clerk, object: blue, edit: labelled(tenant("red")), refused: `may not give a namespace to the tenant "red"`},
		{name: "and takes nothing from another", who: clerk, object: red, edit: labelled(tenant("blue")), refused: `may not take a namespace from the tenant "red"`},
		{name: "an administrator may", who: clusterAdmin(), object: red, edit: labelled(tenant("blue"))},
		{name: "who edits the namespace has no right on its labels", who: editor, object: plain, edit: labelled(tenant("blue")), refused: "cannot"},
		{name: "nor has its administrator", who: owner, object: plain, edit: labelled(tenant("blue")), refused: "cannot"},
		{name: "nor the operator", who: operator(), object: plain, edit: labelled(tenant("blue")), refused: "cannot"},
	})
}

// proxyVerbs returns the methods of requests through the API server, whose names in
// roles are others.
func proxyVerbs() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

// proxy sends a request through the API server to a pod or Service that does not exist, and returns
// the text of the answer. If admission lets the request pass, the answer is "not found".
func proxy(ctx context.Context, c kubernetes.Interface, verb, namespace, resource string) string {
	result := c.CoreV1().RESTClient().Verb(verb).Namespace(namespace).Resource(resource).Name("nobody").SubResource("proxy").Do(ctx)
	body, err := result.Raw()
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return status.Message
	}
	return fmt.Sprintf("%v: %s", err, body)
}

// proxied is the answer of a proxy that has no target. From Kubernetes 1.37 on, the API server
// reports a Service that does not exist as one without endpoints.
const proxied = "not found|no endpoints available"

func TestProxy_OtherVPCOrTenant_Refused(t *testing.T) {
	admin := start(t)
	network := func(namespace, kind, vpc string) {
		create(t, admin, &arktosv1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "net"}, Spec: arktosv1.NetworkSpec{Type: kind, VPCID: vpc},
		})
	}
	for name, labels := range map[string]map[string]string{
		"proxy-plain": nil, "proxy-tenant": tenant("blue"), "proxy-own": nil, "proxy-default": nil, "proxy-other-type": nil,
	} {
		create(t, admin, namespace(name, labels))
	}
	network("proxy-own", arktosv1.TypeVPC, "somewhere")
	network("proxy-default", arktosv1.TypeMizar, "default")
	network("proxy-other-type", "flat", "somewhere")

	for _, tt := range []struct{ name, namespace, want string }{
		{"a namespace in the default VPC", "proxy-plain", proxied},
		{"a tenant's namespace", "proxy-tenant", `cannot reach pods of the tenant "blue"`},
		{"a namespace with a Network of another VPC", "proxy-own", `pods of the Network "net" of this namespace`},
		{"a namespace with a Network of the default VPC", "proxy-default", proxied},
		{"a namespace with a Network of another kind", "proxy-other-type", proxied},
	} {
		t.Run(tt.name, func(t *testing.T) { proxies(t, clusterAdmin(), tt.namespace, tt.want) })
	}
}

// proxies sends a request of each kind through the API server. want is a regular expression of
// the answers.
func proxies(t *testing.T, who user, namespace, want string) {
	t.Helper()
	c := kubernetes.NewForConfigOrDie(configAs(t, who))
	answer := regexp.MustCompile(want)
	for _, resource := range []string{"pods", "services"} {
		for _, verb := range proxyVerbs() {
			t.Run(verb+" "+resource, func(t *testing.T) {
				eventually(t, func(ctx context.Context) error {
					if got := proxy(ctx, c, verb, namespace, resource); !answer.MatchString(got) {
						return fmt.Errorf("answer %q, want %q in it", got, want)
					}
					return nil
				})
			})
		}
	}
}

func TestProxy_WithoutDefaultVPCRight_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("proxy-right", nil))
	create(t, admin, namespace("proxy-closed", tenant("blue")))
	trusted := person("proxy-trusted")
	grantRules(t, admin, trusted, "proxy-to-default", rbacv1.PolicyRule{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"vpcs"}, ResourceNames: []string{"default"}, Verbs: []string{"proxy"},
	})
	grantIn(t, admin, "proxy-right", trusted, "edit")
	grantIn(t, admin, "proxy-closed", trusted, "edit")
	for _, role := range []string{"edit", "admin"} {
		who := person("proxy-" + role)
		grantIn(t, admin, "proxy-right", who, role)
		t.Run("with the role "+role, func(t *testing.T) {
			proxies(t, who, "proxy-right", `needs the verb "proxy" on vpcs.alioth.dev "default"`)
		})
	}
	t.Run("with the right", func(t *testing.T) { proxies(t, trusted, "proxy-right", proxied) })
	t.Run("with the right, to a tenant", func(t *testing.T) { proxies(t, trusted, "proxy-closed", `cannot reach pods of the tenant "blue"`) })
}
