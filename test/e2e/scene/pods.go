// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// Start creates pods and waits until all of them are Ready; the pods given are
// then as the API server has them.
func (s *Scene) Start(ctx context.Context, pods ...*corev1.Pod) error {
	for _, pod := range pods {
		if err := s.Create(ctx, pod); err != nil {
			return err
		}
	}
	return s.WaitReady(ctx, pods...)
}

// WaitReady waits until pods are Ready. When one isn't in time, the error holds
// its description.
func (s *Scene) WaitReady(ctx context.Context, pods ...*corev1.Pod) error {
	for _, pod := range pods {
		err := Until(ctx, nameOf(pod)+" to be Ready", func(ctx context.Context) (bool, string, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
			return err == nil && IsReady(pod), string(pod.Status.Phase), err
		})
		if err != nil {
			return fmt.Errorf("%w\n%s", err, s.Describe(context.WithoutCancel(ctx), pod))
		}
	}
	return nil
}

// IsReady reports whether the pod's Ready condition is true.
func IsReady(pod *corev1.Pod) bool {
	condition := PodCondition(pod, corev1.PodReady)
	return condition != nil && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
}

// PodCondition returns a condition of a pod, or nil.
func PodCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// NetworkCondition returns the pod's condition that Alioth sets, or nil.
func NetworkCondition(pod *corev1.Pod) *corev1.PodCondition {
	return PodCondition(pod, v1alpha1.NetworkReadyCondition)
}

// IPs returns the pod's addresses as its status lists them.
func IPs(pod *corev1.Pod) []netip.Addr {
	var ips []netip.Addr
	for _, podIP := range pod.Status.PodIPs {
		if ip, err := netip.ParseAddr(podIP.IP); err == nil {
			ips = append(ips, ip)
		}
	}
	return ips
}

// IP returns the pod's address of one family; the zero Addr if it has none.
func IP(pod *corev1.Pod, v6 bool) netip.Addr {
	for _, ip := range IPs(pod) {
		if ip.Is6() == v6 {
			return ip
		}
	}
	return netip.Addr{}
}

// Events returns the events about an object of a namespace, oldest first.
func (s *Scene) Events(ctx context.Context, object client.Object) ([]corev1.Event, error) {
	var list corev1.EventList
	if err := s.Client.List(ctx, &list, client.InNamespace(object.GetNamespace())); err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	events := slices.DeleteFunc(list.Items, func(event corev1.Event) bool {
		about := event.InvolvedObject
		return about.Name != object.GetName() || (object.GetUID() != "" && about.UID != "" && about.UID != object.GetUID())
	})
	slices.SortStableFunc(
		events,
		func(a, b corev1.Event) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) },
	)
	return events, nil
}

// Describe returns the state of a pod in the cluster: phase, node, addresses, conditions,
// containers and events.
func (s *Scene) Describe(ctx context.Context, pod *corev1.Pod) string {
	var text strings.Builder
	now := &corev1.Pod{}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), now); err != nil {
		return fmt.Sprintf("  describe %s: %v\n", nameOf(pod), err)
	}
	fmt.Fprintf(
		&text,
		"  %s: phase %s, node %s, addresses %v\n",
		nameOf(now),
		now.Status.Phase,
		now.Spec.NodeName,
		IPs(now),
	)
	for key, value := range now.Annotations {
		fmt.Fprintf(&text, "  annotation %s: %s\n", key, value)
	}
	for _, condition := range now.Status.Conditions {
		fmt.Fprintf(&text, "  condition %s=%s %s %s\n", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	for _, container := range now.Status.ContainerStatuses {
		fmt.Fprintf(
			&text,
			"  container %s: ready %t, restarts %d, state %s\n",
			container.Name,
			container.Ready,
			container.RestartCount,
			describeState(container.State),
		)
	}
	events, err := s.Events(ctx, now)
	if err != nil {
		fmt.Fprintf(&text, "  %v\n", err)
	}
	for _, event := range events {
		fmt.Fprintf(&text, "  event %s %s x%d: %s\n", event.Type, event.Reason, max(event.Count, 1), event.Message)
	}
	return text.String()
}

func describeState(state corev1.ContainerState) string {
	switch {
	case state.Running != nil:
		return "running"
	case state.Waiting != nil:
		return fmt.Sprintf("waiting (%s: %s)", state.Waiting.Reason, state.Waiting.Message)
	case state.Terminated != nil:
		return fmt.Sprintf(
			"terminated (%s, exit code %d: %s)",
			state.Terminated.Reason,
			state.Terminated.ExitCode,
			state.Terminated.Message,
		)
	}
	return "unknown"
}
