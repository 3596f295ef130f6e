// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

func TestTenantsPodsUseTheSharedServices(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	// The second tenant's range is the one in which the cluster DNS pods and
	// the API server's node have their own addresses.
	underlay, _ := e.Lab.Topology().Networks()
	tenants := []*scene.Tenant{
		e.Tenant(t, stage.Overlapping("blue")),
		e.Tenant(t, scene.TenantSpec{Name: "backendlike", CIDRs: []string{"10.244.0.0/16", underlay.String()}, Subnets: []scene.Range{
			{Name: "net1", CIDRs: []string{"10.244.0.0/16"}}, {Name: "net2", CIDRs: []string{underlay.String()}},
		}}),
	}
	for _, tenant := range tenants {
		e.allowListingPods(t, tenant.Namespace.Name)
		pods := []*corev1.Pod{
			tenant.Pod("one", scene.OnNode(first), scene.WithNIC(`{"subnet": "net1"}`)),
			tenant.Pod("two", scene.OnNode(second), scene.WithNIC(`{"subnet": "net2"}`)),
		}
		e.Run(t, pods...)
		for _, pod := range pods {
			t.Run(pod.Namespace+"/"+pod.Name+" resolves names", func(t *testing.T) {
				out := e.InPod(t, pod, scene.Tool, "resolve", "kubernetes.default.svc.cluster.local")
				if !strings.Contains(out, "10.96.0.1") {
					t.Errorf("kubernetes.default resolves to %q, want 10.96.0.1", out)
				}
			})
			t.Run(pod.Namespace+"/"+pod.Name+" reaches the API with its ServiceAccount", func(t *testing.T) {
				out := e.InPod(t, pod, scene.Tool, "api", "/version", "/api/v1/namespaces/{namespace}/pods")
				if !strings.Contains(out, "gitVersion") || !listsPod(out, pod.Name) {
					t.Errorf("the API answers\n%s\nwant its version and the pod %s", out, pod.Name)
				}
			})
		}
	}
}

// listsPod says whether the output holds a PodList with a pod of that name.
func listsPod(out, name string) bool {
	decoder := json.NewDecoder(strings.NewReader(out))
	for {
		var list corev1.PodList
		if err := decoder.Decode(&list); err != nil {
			return false
		}
		for _, pod := range list.Items {
			if pod.Name == name {
				return true
			}
		}
	}
}

// allowListingPods lets a namespace's default ServiceAccount list its pods.
func (e *env) allowListingPods(t *testing.T, namespace string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "lists-pods"}
	e.Make(t,
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "default"}},
		})
}
