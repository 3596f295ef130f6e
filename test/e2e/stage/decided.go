// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// Decided has the decisions of Alioth about the living pods of a cluster, as the API has them.
type Decided struct {
	// Pods have their annotations and addresses by namespace, name and UID.
	Pods map[string]string
	// Addresses has the UIDs, holders and nodes of Addresses by name: Addresses of living pods, and
	// of other holders.
	Addresses map[string]string
}

// Decided reads it of all pods that have an allocation status.
func (e *Env) Decided(ctx context.Context, t *testing.T) Decided {
	t.Helper()
	var pods corev1.PodList
	var addresses v1alpha1.AddressList
	for _, list := range []client.ObjectList{&pods, &addresses} {
		if err := e.Client.List(ctx, list); err != nil {
			t.Fatal(err)
		}
	}
	d, living := Decided{Pods: map[string]string{}, Addresses: map[string]string{}}, map[string]bool{}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			continue
		}
		living[string(pod.UID)] = true
		if pod.Namespace != cluster.SystemNamespace && pod.Annotations[v1alpha1.AttachmentsAnnotation] != "" {
			key := strings.Join([]string{pod.Namespace, pod.Name, string(pod.UID)}, "/")
			d.Pods[key] = fmt.Sprintf(
				"%v %v, condition since %s",
				pod.Annotations,
				pod.Status.PodIPs,
				scene.NetworkCondition(&pod).LastTransitionTime,
			)
		}
	}
	for _, address := range addresses.Items {
		if holder := address.Spec.Holder; holder.Kind == v1alpha1.HolderPod && !living[holder.UID] {
			continue
		}
		d.Addresses[address.Name] = fmt.Sprintf("%s %s %s", address.UID, address.Spec.Holder.UID, address.Spec.Node)
	}
	return d
}

// ExpectDecided requires that all decisions are as before, and that no allocation status was
// written again. Pods that came meanwhile do not matter.
func (e *Env) ExpectDecided(ctx context.Context, t *testing.T, before Decided) {
	t.Helper()
	if len(before.Pods) < 2 || len(before.Addresses) < len(before.Pods) {
		t.Fatalf("%d pods and %d Addresses are too few", len(before.Pods), len(before.Addresses))
	}
	now := e.Decided(ctx, t)
	maps.DeleteFunc(now.Pods, func(key, _ string) bool { return before.Pods[key] == "" })
	maps.DeleteFunc(now.Addresses, func(name, _ string) bool { return before.Addresses[name] == "" })
	if diff := cmp.Diff(before, now); diff != "" {
		t.Errorf("what was decided has changed (-before +after):\n%s", diff)
	}
}

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
		if condition == nil || condition.Status != corev1.ConditionFalse || condition.Reason != reason ||
			!strings.Contains(condition.Message, message) {
			return false, fmt.Sprintf("condition %+v, want False %s with %q", condition, reason, message), nil
		}
		events, err := e.Events(ctx, pod)
		reported := slices.ContainsFunc(events, func(event corev1.Event) bool {
			return event.Type == corev1.EventTypeWarning && event.Reason == reason && strings.Contains(event.Message, message)
		})
		return reported, "no Warning event " + reason + " with " + message, err
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
