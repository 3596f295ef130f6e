// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// finishing has a pod end by itself, well or with an error.
func finishing(code string) scene.PodOption {
	return func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Containers[0].Command = []string{"sh", "-c", "exit " + code}
	}
}

// awaitPhase waits until a pod has ended so.
func (l *lab) awaitPhase(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	until(t, "pod "+pod.Name+" to be "+string(phase), func(ctx context.Context) (bool, string, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return err == nil && pod.Status.Phase == phase, string(pod.Status.Phase), err
	})
}

var _ = kept(Report{
	Name: "ip-of-a-finished-pod", Source: "kubernetes/kubernetes#98611", Kind: addresses,
	Input: "A pod of a Job has finished, and its object stays. Its IP is given to another pod. Then the finished pod is deleted.",
	Want:  "The other pod starts, and keeps the IP: the deletion frees nothing that it holds.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("jobs"))
		fixed := scene.WithNIC(`{"ip": "10.10.1.70,fd10:10:0:1::70"}`)
		finished := tenant.Pod("job", scene.OnNode(first), fixed, finishing("0"))
		running, asker := tenant.Pod("running", scene.OnNode(second), fixed), tenant.Pod("asker", scene.OnNode(first))
		l.create(t, finished)
		l.awaitPhase(t, finished, corev1.PodSucceeded)
		l.Run(t, running, asker)
		if err := l.Delete(patience(t), finished); err != nil {
			t.Fatal(err)
		}
		l.expectFreed(t, finished)
		l.expectOwn(t, 2, running)
		l.ExpectAnswers(t, asker, stage.WantPod(running))
	},
})
