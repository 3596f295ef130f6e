// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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

// relabel sets a namespace's labels through a subresource, "" for the object.
func relabel(name, subresource string, labels map[string]string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		ns := new(corev1.Namespace)
		if err := c.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil {
			return fmt.Errorf("read the namespace: %w", err)
		}
		ns.Labels = labels
		if subresource == "" {
			return c.Update(ctx, ns, client.DryRunAll)
		}
		return c.SubResource(subresource).Update(ctx, ns, &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}})
	}
}

func createNamespace(labels map[string]string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, namespace("label-new", labels), client.DryRunAll)
	}
}

func TestTenantLabelNeedsTheRightToAssignTheTenant(t *testing.T) {
	admin := start(t)
	alice, clerk := person("label-alice"), person("label-clerk")
	namespaces := rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"namespaces", "namespaces/status", "namespaces/finalize"},
		Verbs: []string{"get", "create", "update", "patch"},
	}
	assign := rbacv1.PolicyRule{
		APIGroups: []string{"alioth.dev"}, Resources: []string{"tenants"}, Verbs: []string{"assign"}, ResourceNames: []string{"blue"},
	}
	grantRules(t, admin, alice, "label-namespaces", namespaces)
	grantRules(t, admin, clerk, "label-blue", namespaces, assign)
	create(t, admin, namespace("label-plain", nil))
	create(t, admin, namespace("label-blue", tenant("blue")))
	create(t, admin, namespace("label-red", tenant("red")))

	run(t, []attempt{
		{"a namespace with a tenant is refused without the right", alice, createNamespace(tenant("blue")), `may not give a namespace to the tenant "blue"`},
		{"a namespace without a tenant needs no right", alice, createNamespace(nil), ""},
		{"an empty tenant is none", alice, createNamespace(tenant("")), ""},
		{"setting the label is refused", alice, relabel("label-plain", "", tenant("blue")), `tenants.alioth.dev "blue"`},
		{"so it is through the status", alice, relabel("label-plain", "status", tenant("blue")), `may not give`},
		{"and through finalize", alice, relabel("label-plain", "finalize", tenant("blue")), `may not give`},
		{"removing the label is refused", alice, relabel("label-blue", "", nil), `may not take a namespace from the tenant "blue"`},
		{"another label of a tenant's namespace is nobody's business", alice, relabel("label-blue", "", map[string]string{v1alpha1.TenantLabel: "blue", "team": "x"}), ""},
		{"who may assign the tenant creates with it", clerk, createNamespace(tenant("blue")), ""},
		{"and sets it", clerk, relabel("label-plain", "", tenant("blue")), ""},
		{"and removes it", clerk, relabel("label-blue", "", nil), ""},
		{"but no other tenant's", clerk, relabel("label-blue", "", tenant("red")), `may not give a namespace to the tenant "red"`},
		{"and takes nothing from another", clerk, relabel("label-red", "", tenant("blue")), `may not take a namespace from the tenant "red"`},
		{"an administrator may", clusterAdmin(), relabel("label-red", "", tenant("blue")), ""},
	})
}

// proxy sends a request through the API server to a pod or Service that does
// not exist, and returns the text of the answer: what admission lets pass is
// not found.
func proxy(ctx context.Context, c kubernetes.Interface, namespace, resource string) string {
	result := c.CoreV1().RESTClient().Get().Namespace(namespace).Resource(resource).Name("nobody").SubResource("proxy").Do(ctx)
	body, err := result.Raw()
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return status.Message
	}
	return fmt.Sprintf("%v: %s", err, body)
}

func TestProxyReachesTheDefaultVPCOnly(t *testing.T) {
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

	c := kubernetes.NewForConfigOrDie(configAs(t, clusterAdmin()))
	for _, tt := range []struct{ name, namespace, want string }{
		{"a namespace in the default VPC", "proxy-plain", "not found"},
		{"a tenant's namespace", "proxy-tenant", `can not reach pods of the tenant "blue"`},
		{"a namespace with a Network of another VPC", "proxy-own", `pods of the Network "net" of this namespace`},
		{"a namespace with a Network of the default VPC", "proxy-default", "not found"},
		{"a namespace with a Network of another kind", "proxy-other-type", "not found"},
	} {
		for _, resource := range []string{"pods", "services"} {
			t.Run(tt.name+", "+resource, func(t *testing.T) {
				eventually(t, func(ctx context.Context) error {
					if got := proxy(ctx, c, tt.namespace, resource); !strings.Contains(got, tt.want) {
						return fmt.Errorf("answer %q, want %q in it", got, tt.want)
					}
					return nil
				})
			})
		}
	}
}

func TestProxyTakesARightOnTheDefaultVPC(t *testing.T) {
	admin := start(t)
	create(t, admin, namespace("proxy-right", nil))
	editor, viewer := person("proxy-editor"), person("proxy-trusted")
	grant(t, admin, editor, "edit")
	grant(t, admin, viewer, "edit")
	grantRules(t, admin, viewer, "proxy-to-default", rbacv1.PolicyRule{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"vpcs"}, ResourceNames: []string{"default"}, Verbs: []string{"proxy"},
	})
	grantRules(t, admin, editor, "proxy-connect", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"pods/proxy", "services/proxy"}, Verbs: []string{"get"},
	})
	grant(t, admin, viewer, "proxy-connect")
	for _, tt := range []struct {
		who  user
		want string
	}{{editor, `needs the verb "proxy" on vpcs.alioth.dev "default"`}, {viewer, "not found"}} {
		c := kubernetes.NewForConfigOrDie(configAs(t, tt.who))
		for _, resource := range []string{"pods", "services"} {
			t.Run(tt.who.name+", "+resource, func(t *testing.T) {
				eventually(t, func(ctx context.Context) error {
					if got := proxy(ctx, c, "proxy-right", resource); !strings.Contains(got, tt.want) {
						return fmt.Errorf("answer %q, want %q in it", got, tt.want)
					}
					return nil
				})
			})
		}
	}
}
