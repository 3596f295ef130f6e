// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// collected are the Warning headers that a client got.
type collected struct {
	mu   sync.Mutex
	list []string
}

func (c *collected) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, text)
}

func template(edit func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	p := pod("pods", "p", "")
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}}, Spec: p.Spec}
	edit(&template)
	return template
}

func podOf(t corev1.PodTemplateSpec) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "pods", Name: "warned", Annotations: t.Annotations}, Spec: t.Spec}
}

func deploymentOf(t corev1.PodTemplateSpec) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "pods", Name: "warned"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: t.Labels}, Template: t},
	}
}

func cronJobOf(t corev1.PodTemplateSpec) *batchv1.CronJob {
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "pods", Name: "warned"},
		Spec: batchv1.CronJobSpec{
			Schedule:    "0 0 1 1 *",
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: t}},
		},
	}
}

func TestAdmissionWarnings_UnenforcedFeature_Named(t *testing.T) {
	podsNamespace(t)
	plain := template(func(*corev1.PodTemplateSpec) {})
	bandwidth := template(func(t *corev1.PodTemplateSpec) {
		t.Annotations = map[string]string{"kubernetes.io/ingress-bandwidth": "1M"}
	})
	egress := template(func(t *corev1.PodTemplateSpec) {
		t.Annotations = map[string]string{"kubernetes.io/egress-bandwidth": "1M"}
	})
	port := template(func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	})
	const noBandwidth, noPolicy = "does not enforce the annotations kubernetes.io/ingress-bandwidth", "does not enforce NetworkPolicy"

	for _, tt := range []struct {
		name   string
		object client.Object
		want   string
	}{
		{"a NetworkPolicy", &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "pods", Name: "warned"}}, noPolicy},
		{"a pod with an ingress bandwidth", podOf(bandwidth), noBandwidth},
		{"a pod with an egress bandwidth", podOf(egress), noBandwidth},
		{"a Deployment with a bandwidth", deploymentOf(bandwidth), noBandwidth},
		{"a CronJob with a bandwidth", cronJobOf(bandwidth), noBandwidth},
		{"a plain pod", podOf(plain), ""},
		{"a plain Deployment", deploymentOf(plain), ""},
		{"a plain CronJob", cronJobOf(plain), ""},
		{"a pod with a host port", podOf(port), ""},
	} {
		for _, a := range creations(t, tt.name, podsAdmin(), tt.object, "") {
			t.Run(a.name, func(t *testing.T) {
				warnings := new(collected)
				config := configAs(t, a.who)
				config.WarningHandlerWithContext = warnings
				if err := a.do(t.Context(), newClient(t, config)); err != nil {
					t.Fatalf("a warning must not refuse: %v", err)
				}
				if tt.want == "" && len(warnings.list) > 0 {
					t.Errorf("got warnings %q, want none", warnings.list)
				}
				if tt.want != "" && !strings.Contains(strings.Join(warnings.list, "\n"), tt.want) {
					t.Errorf("got warnings %q, want one with %q", warnings.list, tt.want)
				}
			})
		}
	}
}
