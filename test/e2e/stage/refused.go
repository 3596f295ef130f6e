// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
)

// ExpectRefused waits until a pod has the condition and the Warning event with the reason
// why it gets no address, and requires that it holds none and does not run.
func (e *Env) ExpectRefused(t *testing.T, pod *corev1.Pod, reason, message string) {
	t.Helper()
	ctx := Within(t, Patience)
	err := scene.Until(ctx, "condition and event "+reason, func(ctx context.Context) (bool, string, error) {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return false, "", err
		}
		condition := scene.NetworkCondition(pod)
		if condition == nil || condition.Status != corev1.ConditionFalse || condition.Reason != reason || !strings.Contains(condition.Message, message) {
			return false, fmt.Sprintf("condition %+v, want False %s with %q", condition, reason, message), nil
		}
		events, err := e.Events(ctx, pod)
		told := slices.ContainsFunc(events, func(event corev1.Event) bool {
			return event.Type == corev1.EventTypeWarning && event.Reason == reason && strings.Contains(event.Message, message)
		})
		return told, "no Warning event " + reason + " with " + message, err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, e.Describe(context.Background(), pod))
	}
	held, err := e.Held(ctx, pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	if len(held) > 0 || len(scene.IPs(pod)) > 0 || pod.Status.Phase != corev1.PodPending {
		t.Errorf("a refused pod holds %v:\n%s", held, e.Describe(ctx, pod))
	}
}
