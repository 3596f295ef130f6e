// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pollInterval is how often WaitFor looks.
const pollInterval = 100 * time.Millisecond

// WaitFor calls check until it returns nil. Its error means "not yet" and is
// part of WaitFor's own when ctx, which should have a deadline, ends first.
func WaitFor(ctx context.Context, what string, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // not the error that the end of ctx itself caused
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w; last seen: %w", what, context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

// NodeReady returns an error for a node that is not Ready.
func NodeReady(n *corev1.Node) error {
	for _, condition := range n.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return nil
		}
		return fmt.Errorf("node %s is not Ready: %s", n.Name, condition.Message)
	}
	return fmt.Errorf("node %s has not reported yet", n.Name)
}

// WaitPodReady returns when a pod is Ready.
func (c *Clients) WaitPodReady(ctx context.Context, namespace, name string) error {
	what := fmt.Sprintf("pod %s/%s is Ready", namespace, name)
	return WaitFor(ctx, what, func(ctx context.Context) error {
		pod, err := c.Client().CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return podReady(pod)
	})
}

// WaitPodsReady returns the pods that match a label selector once there are
// exactly count of them, all Ready and none being deleted.
func (c *Clients) WaitPodsReady(ctx context.Context, namespace, selector string, count int) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	what := fmt.Sprintf("%d pods %q in %q are Ready", count, selector, namespace)
	err := WaitFor(ctx, what, func(ctx context.Context) error {
		list, err := c.Client().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		pods = list.Items
		for i := range pods {
			if err := podReady(&pods[i]); err != nil {
				return err
			}
		}
		if len(pods) != count {
			return fmt.Errorf("%d pods match", len(pods))
		}
		return nil
	})
	return pods, err
}

// WaitPodGone returns when a pod no longer exists.
func (c *Clients) WaitPodGone(ctx context.Context, namespace, name string) error {
	what := fmt.Sprintf("pod %s/%s is gone", namespace, name)
	return WaitFor(ctx, what, func(ctx context.Context) error {
		_, err := c.Client().CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it still exists")
		}
		return err
	})
}

func podReady(pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s is being deleted", pod.Name)
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if w := status.State.Waiting; w != nil {
			return fmt.Errorf("pod %s is not Ready: container %s: %s %s", pod.Name, status.Name, w.Reason, w.Message)
		}
	}
	return fmt.Errorf("pod %s is not Ready: %s %s %s", pod.Name, pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
}

// WaitDeploymentReady returns when a Deployment's newest generation has all its
// replicas available and no others.
func (c *Clients) WaitDeploymentReady(ctx context.Context, namespace, name string) error {
	what := fmt.Sprintf("deployment %s/%s is available", namespace, name)
	return WaitFor(ctx, what, func(ctx context.Context) error {
		d, err := c.Client().AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return deploymentReady(d)
	})
}

func deploymentReady(d *appsv1.Deployment) error {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.Replicas != want ||
		s.AvailableReplicas != want {
		return fmt.Errorf(
			"%d of %d replicas are up to date, %d available, %d in all",
			s.UpdatedReplicas,
			want,
			s.AvailableReplicas,
			s.Replicas,
		)
	}
	return nil
}

// WaitDaemonSetReady returns when every scheduled pod of a DaemonSet is up to
// date and available.
func (c *Clients) WaitDaemonSetReady(ctx context.Context, namespace, name string) error {
	what := fmt.Sprintf("daemonset %s/%s is available", namespace, name)
	return WaitFor(ctx, what, func(ctx context.Context) error {
		d, err := c.Client().AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := d.Status
		want := s.DesiredNumberScheduled
		if s.ObservedGeneration < d.Generation || want == 0 || s.UpdatedNumberScheduled != want || s.NumberAvailable != want {
			return fmt.Errorf("%d of %d pods are up to date, %d available", s.UpdatedNumberScheduled, want, s.NumberAvailable)
		}
		return nil
	})
}
