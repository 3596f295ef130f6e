// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

func TestSharedServices_TenantPod_DNSAndAPIReached(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	// The second tenant's range contains the addresses of the cluster DNS pods and of the API
	// server's node.
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

// listsPod reports whether the output holds a PodList with a pod of that name.
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

func TestSharedService_EveryVPC_OnlyItReached(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	namespace := e.plainNamespace(t)
	service, unshared := unsharedService(namespace), unsharedService(namespace)
	service.Name = "shared"
	e.Make(t, service, unshared)
	backends := []*corev1.Pod{
		scene.Pod(namespace, "one", scene.OnNode(first), scene.WithLabel("app", "unshared")),
		scene.Pod(namespace, "two", scene.OnNode(second), scene.WithLabel("app", "unshared")),
	}
	e.Run(t, backends...)
	tenant := e.Tenant(t, stage.Overlapping("user"))
	asker := tenant.Pod("asker", scene.OnNode(second))
	e.Run(t, asker)
	var targets, lacking, others []string
	for _, ip := range service.Spec.ClusterIPs {
		targets = append(targets, scene.Targets([]string{"tcp", "udp", "http"}, netip.MustParseAddr(ip))...)
		lacking = append(lacking, scene.TargetPort("connect", netip.MustParseAddr(ip), kubeletPort))
		others = append(others, scene.Target("icmp", netip.MustParseAddr(ip)))
	}
	for _, ip := range unshared.Spec.ClusterIPs {
		others = append(others, scene.Targets(scene.Protocols(), netip.MustParseAddr(ip))...)
	}
	for _, backend := range backends {
		others = append(others, scene.Targets(scene.Protocols(), scene.IPs(backend)...)...)
	}
	if len(service.Spec.ClusterIPs) != 2 {
		t.Fatalf("the Service has ClusterIPs %v, want two", service.Spec.ClusterIPs)
	}
	e.expectSilence(t, asker, targets...)

	object := &v1alpha1.SharedService{
		ObjectMeta: metav1.ObjectMeta{Name: unique("shared")}, Spec: v1alpha1.SharedServiceSpec{Namespace: namespace, Name: "not-yet"},
	}
	e.Make(t, object)
	e.awaitShared(t, object, v1alpha1.ServiceNotFoundReason)
	before := object.DeepCopy()
	object.Spec.Name = service.Name
	if err := e.Client.Patch(within(t, patience), object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	e.awaitShared(t, object, v1alpha1.ReadyReason)
	e.awaitReach(t, asker, true, targets[0])
	results, err := e.Ask(within(t, patience), asker, answerTime, targets...)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if !result.OK {
			t.Errorf("no answer from %s: %s", result.Target, result.Error)
		}
	}
	t.Run("by its name", func(t *testing.T) {
		out := e.InPod(t, asker, scene.Tool, "resolve", service.Name+"."+namespace+".svc.cluster.local")
		if !strings.Contains(out, service.Spec.ClusterIP) {
			t.Errorf("the name resolves to %q, want %s", out, service.Spec.ClusterIP)
		}
	})
	t.Run("a port that it lacks is refused", func(t *testing.T) {
		results, err := e.Ask(within(t, patience), asker, answerTime, lacking...)
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range results {
			if result.OK || !strings.Contains(result.Error, "refused") {
				t.Errorf("%s: %+v", result.Target, result)
			}
		}
	})
	t.Run("nothing else", func(t *testing.T) { e.expectSilence(t, asker, others...) })
	t.Run("and no longer than the object is there", func(t *testing.T) {
		if err := e.Delete(within(t, patience), object); err != nil {
			t.Fatal(err)
		}
		e.awaitReach(t, asker, false, targets[0])
		e.expectSilence(t, asker, targets...)
	})
}

// awaitShared waits until the condition Ready has a reason.
func (e *env) awaitShared(t *testing.T, object *v1alpha1.SharedService, reason string) {
	t.Helper()
	err := scene.Until(within(t, patience), "SharedService to be "+reason, func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		condition := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ReadyCondition)
		return condition != nil && condition.Reason == reason, fmt.Sprint(object.Status.Conditions), err
	})
	if err != nil {
		t.Fatal(err)
	}
}
