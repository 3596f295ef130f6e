// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// statefulSet is one of a tenant whose pods start all at once.
func statefulSet(tenant *scene.Tenant, replicas int32) *appsv1.StatefulSet {
	pod := tenant.Pod("db", scene.WithLabel("app", "db"))
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}
}

// awaitPods waits until all pods of a set run, and all of them are new.
func (l *lab) awaitPods(t *testing.T, set *appsv1.StatefulSet, before map[string]bool) (pods []*corev1.Pod) {
	t.Helper()
	until(t, "the pods of the set", func(ctx context.Context) (bool, string, error) {
		var list corev1.PodList
		err := l.Client.List(ctx, &list, client.InNamespace(set.Namespace), client.MatchingLabels(set.Spec.Selector.MatchLabels))
		pods = nil
		for i := range list.Items {
			if pod := &list.Items[i]; scene.IsReady(pod) && !before[string(pod.UID)] {
				pods = append(pods, pod)
			}
		}
		return len(pods) == int(*set.Spec.Replicas), fmt.Sprintf("%d are ready", len(pods)), err
	})
	return pods
}

var _ = kept(Report{
	Name: "stateful-set-deleted-by-force", Source: "spidernet-io/spiderpool#2526", Kind: addresses,
	Input: "The pods of a StatefulSet are deleted by force, twice in a row, while other pods start in the same subnet.",
	Want:  "No address has two holders, and what the deleted pods held is free in the end.",
	Run: func(t *testing.T, l *lab) {
		first, _ := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("force"))
		set := statefulSet(tenant, 3)
		l.Make(t, set)
		before, others := map[string]bool{}, []*corev1.Pod(nil)
		pods := l.awaitPods(t, set, before)
		for round := range 2 {
			for _, pod := range pods {
				before[string(pod.UID)] = true
			}
			l.forceDelete(t, pods...)
			other := tenant.Pod(fmt.Sprintf("other-%d", round), scene.OnNode(first))
			l.create(t, other)
			others = append(others, other)
			pods = l.awaitPods(t, set, before)
		}
		l.ready(t, others...)
		l.expectOwn(t, 2, append(pods, others...)...)
		until(t, "the addresses of these pods alone", func(ctx context.Context) (bool, string, error) {
			var list v1alpha1.AddressList
			err := l.Client.List(ctx, &list, client.MatchingFields{"spec.vpc": tenant.VPC.Name})
			return len(list.Items) == 2*(len(pods)+len(others)), fmt.Sprintf("%d addresses", len(list.Items)), err
		})
	},
})
