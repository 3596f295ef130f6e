// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/api/chart"
)

// The namespace of the tenant, and the node that all samples belong to.
const (
	tenantNamespace = "customer"
	thisNode        = "node-a"
	otherNode       = "node-b"
)

// principal is somebody who sends requests.
type principal struct {
	name   string
	user   string
	groups []string
	// node is the node of the pod that a ServiceAccount's token is bound to.
	node string
	// hostile is true for those whose word alone is never believed.
	hostile bool
	// tried is true for those whose writes are tried field by field. Of others the rights
	// are asked.
	tried bool
}

// principals are all that the inventory tells apart, in the order of the document. A tenant has all
// rights in a namespace, which no role of the chart gives: it is the worst case. An editor has
// Kubernetes' own role with the rights that the chart adds to it.
func principals() []principal {
	all := "system:authenticated"
	accounts := "system:serviceaccounts"
	return []principal{
		{name: "everybody", user: "nobody", groups: []string{all}, hostile: true, tried: true},
		{
			name:    "pod",
			user:    "system:serviceaccount:customer:default",
			groups:  []string{accounts, accounts + ":customer", all},
			node:    thisNode,
			hostile: true,
			tried:   true,
		},
		{name: "tenant", user: "owner", groups: []string{all}, hostile: true, tried: true},
		{name: "editor", user: "editor", groups: []string{all}, hostile: true},
		{name: "daemon", user: chart.DaemonUser, groups: []string{accounts, accounts + ":" + chart.Namespace, all}, node: thisNode, hostile: true, tried: true},
		{
			name:    "daemon of another node",
			user:    chart.DaemonUser,
			groups:  []string{accounts, accounts + ":" + chart.Namespace, all},
			node:    otherNode,
			hostile: true,
			tried:   true,
		},
		{name: "kubelet", user: "system:node:" + thisNode, groups: []string{"system:nodes", all}, hostile: true, tried: true},
		{name: "kubelet of another node", user: "system:node:" + otherNode, groups: []string{"system:nodes", all}, hostile: true, tried: true},
		{name: "operator", user: chart.OperatorUser, groups: []string{accounts, accounts + ":" + chart.Namespace, all}, node: thisNode},
		{name: "administrator", user: "root", groups: []string{"system:masters", all}},
	}
}

func principalNamed(name string) principal {
	for _, p := range principals() {
		if p.name == name {
			return p
		}
	}
	return principal{name: name}
}

// extra has the data about the token that the API server gives to admission.
func (p principal) extra() map[string][]string {
	if p.node == "" {
		return nil
	}
	return map[string][]string{"authentication.kubernetes.io/node-name": {p.node}}
}

func (p principal) config(admin *rest.Config) *rest.Config {
	config := rest.CopyConfig(admin)
	config.WarningHandler = rest.NoWarnings{}
	config.Impersonate = rest.ImpersonationConfig{UserName: p.user, Groups: p.groups, Extra: p.extra()}
	return config
}

func (p principal) client(t *testing.T, admin *rest.Config) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(p.config(admin))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// review asks whether the principal has a right.
func (p principal) review(attributes authorizationv1.ResourceAttributes) *authorizationv1.SubjectAccessReview {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range p.extra() {
		extra[key] = values
	}
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: p.user, Groups: p.groups, Extra: extra, ResourceAttributes: &attributes,
	}}
}

// giveRights makes the tenant the owner of everything in its namespace, and binds the editor
// to Kubernetes' own role.
func giveRights(t *testing.T, admin client.Client) {
	t.Helper()
	everything := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "everything"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}
	if err := admin.Create(t.Context(), everything); err != nil {
		t.Fatal(err)
	}
	for who, role := range map[string]string{"owner": "everything", "editor": "edit"} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: who},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: who}},
		}
		if err := admin.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
}
