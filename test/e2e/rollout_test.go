// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// Numbers of a rolling update: backends, and new connections per second from each of two pods.
const (
	rolloutBackends = 20
	rolloutRate     = 100
)

// drainTime is how long a pod of the Deployment serves after the signal to end, in
// seconds: as is usual, longer than it takes until all nodes have the change.
const drainTime = 10

// deploymentOf returns a Deployment of servers that behaves as a Deployment should that is to be
// updated without a loss.
func deploymentOf(tenant *scene.Tenant, name string) *appsv1.Deployment {
	pod := tenant.Pod(name, scene.WithLabel("app", name), scene.WithReadiness(httpProbe("/healthz")))
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](2 * drainTime)
	pod.Spec.Containers[0].Command = []string{scene.Tool, "serve"}
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: drainTime}}}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](rolloutBackends),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: ptr.To(intstr.FromInt32(rolloutBackends / 2)), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
			}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}
}

// awaitRollout waits until all pods of a Deployment are of its present template, and
// ready.
func (e *env) awaitRollout(t *testing.T, deployment *appsv1.Deployment) {
	t.Helper()
	err := scene.Until(within(t, 3*patience), "the Deployment to be rolled out", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)
		s := deployment.Status
		done := s.ObservedGeneration == deployment.Generation &&
			s.UpdatedReplicas == rolloutBackends && s.ReadyReplicas == rolloutBackends && s.Replicas == rolloutBackends
		return err == nil && done, fmt.Sprintf("%d pods, %d updated, %d ready", s.Replicas, s.UpdatedReplicas, s.ReadyReplicas), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// connecting is a load of new connections from some pods.
type connecting struct {
	running []*stage.Running
	results []report.Connections
}

// startConnecting returns once answers are back in every pod.
func (e *env) startConnecting(t *testing.T, target string, from ...*corev1.Pod) *connecting {
	t.Helper()
	ctx := within(t, 5*patience)
	c := &connecting{results: make([]report.Connections, len(from))}
	for i, pod := range from {
		c.running = append(c.running, e.Begin(ctx, pod, &c.results[i], "connections", target, "--rate", strconv.Itoa(rolloutRate)))
	}
	for _, r := range c.running {
		if err := e.AwaitBegun(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// expectNoLoss ends the load, and returns how many connections each server had.
func (e *env) expectNoLoss(t *testing.T, c *connecting) map[string]int {
	t.Helper()
	served := map[string]int{}
	for i, r := range c.running {
		pod := r.Pod
		if err := e.End(within(t, patience), r); err != nil {
			t.Errorf("%s: %v", pod.Name, err)
			continue
		}
		result := c.results[i]
		for name, n := range result.Servers {
			served[name] += n
		}
		t.Logf("%s: %d connections in %s to %d servers, %d lost, p99 %s, longest %s", pod.Name, result.Opened,
			result.Duration.Round(time.Millisecond), len(result.Servers), result.Lost, result.Took.P99, result.Took.Max)
		if result.Lost != 0 || result.Answered != result.Opened {
			t.Errorf("%s: %d of %d connections were lost: %+v", pod.Name, result.Lost, result.Opened, result.Losses)
		}
	}
	return served
}

// beginUpdate has the Deployment's pods replaced.
func (m *matrix) beginUpdate(t *testing.T) {
	t.Helper()
	before := m.deployment.DeepCopy()
	m.deployment.Spec.Template.Annotations = map[string]string{"e2e.alioth.dev/rollout": "2"}
	if err := m.Client.Patch(within(t, patience), m.deployment, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
