// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWaitFor_TimedOut_LastErrorTold(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	err := WaitFor(ctx, "pigs fly", func(context.Context) error { return errors.New("they walk") })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "pigs fly") || !strings.Contains(err.Error(), "they walk") {
		t.Errorf("error %v", err)
	}
	calls := 0
	err = WaitFor(t.Context(), "third time", func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestParseManifest_SeveralDocuments_Split(t *testing.T) {
	objects, err := ParseManifest([]byte("# only a comment\n---\nkind: A\nmetadata: {name: x}\n---\n---\nkind: B\n"))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetKind())
	}
	if diff := cmp.Diff([]string{"A", "B"}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if _, err := ParseManifest([]byte("a: [")); err == nil {
		t.Error("malformed YAML was accepted")
	}
}

func TestPodReady_EachState_Judged(t *testing.T) {
	ready := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	now := metav1.Now()
	for name, tt := range map[string]struct {
		pod  corev1.Pod
		want string
	}{
		"ready":         {corev1.Pod{Status: ready}, ""},
		"being deleted": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: ready}, "deleted"},
		"waiting": {corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull"}},
		}}}}, "ErrImageNeverPull"},
		"pending": {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, "Pending"},
	} {
		err := podReady(&tt.pod)
		if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestDeploymentReady_OldReplicas_NotReady(t *testing.T) {
	replicas := int32(2)
	done := appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}
	deployment := func(change func(*appsv1.DeploymentStatus)) *appsv1.Deployment {
		status := done
		change(&status)
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: 3}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}, Status: status,
		}
	}
	if err := deploymentReady(deployment(func(*appsv1.DeploymentStatus) {})); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*appsv1.DeploymentStatus){
		"not observed":      func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 2 },
		"an old one left":   func(s *appsv1.DeploymentStatus) { s.Replicas = 3 },
		"one not updated":   func(s *appsv1.DeploymentStatus) { s.UpdatedReplicas = 1 },
		"one not available": func(s *appsv1.DeploymentStatus) { s.AvailableReplicas = 1 },
	} {
		if deploymentReady(deployment(change)) == nil {
			t.Errorf("%s: ready", name)
		}
	}
}
