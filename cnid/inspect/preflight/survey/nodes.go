// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/inspect/preflight"
)

// NodePods are pods that inspect the nodes from inside.
type NodePods struct {
	// Namespace has to permit privileged pods.
	Namespace string
	// Image contains aliothctl.
	Image string
	// PullPolicy of the image; "" for the default of Kubernetes.
	PullPolicy corev1.PullPolicy
	// Values are the values of the chart, which name folders and ports.
	Values preflight.Values
	// Within limits the pod of one node.
	Within time.Duration
}

const (
	// podsAtOnce limits the pods that run at the same time.
	podsAtOnce = 16
	// mostFacts is the longest report of a node, in bytes.
	mostFacts = 1 << 20
	pollEvery = 500 * time.Millisecond
	// cleanWithin limits the deletion of a pod, also after an interrupt.
	cleanWithin = 20 * time.Second
)

// Inside collects the facts of nodes by a pod on each of them. A node whose pod fails has
// only a name and the cause in Unread; one whose pod stays has the facts as well.
func (r *Reader) Inside(ctx context.Context, nodes []preflight.ClusterNode, pods NodePods) []preflight.Node {
	found := make([]preflight.Node, len(nodes))
	var group errgroup.Group
	group.SetLimit(podsAtOnce)
	for i, n := range nodes {
		group.Go(func() error {
			facts, err := r.inspect(ctx, n.Name, pods)
			if err != nil {
				facts.Unread = append(facts.Unread, quote.Message(fmt.Sprintf("inspect the node by a pod: %v", err)))
			}
			facts.Name = n.Name
			found[i] = facts
			return nil
		})
	}
	_ = group.Wait() // each error is a fact of its node
	return found
}

// inspect runs the pod of one node, and deletes it. It returns facts and an error for a pod
// that it could not delete.
func (r *Reader) inspect(ctx context.Context, node string, pods NodePods) (facts preflight.Node, err error) {
	api := r.api.CoreV1().Pods(pods.Namespace)
	values, err := escaped(pods.Values)
	if err != nil {
		return facts, err
	}
	pod, err := api.Create(ctx, pods.on(node, values), metav1.CreateOptions{})
	if err != nil {
		return facts, fmt.Errorf("create the pod: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanWithin)
		defer cancel()
		if gone := api.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); gone != nil &&
			!apierrors.IsNotFound(gone) {
			err = errors.Join(err, fmt.Errorf("delete the pod %s/%s: %w", pod.Namespace, pod.Name, gone))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, pods.Within)
	defer cancel()
	if err := r.untilEnded(ctx, pod); err != nil {
		return facts, err
	}
	stream, err := api.GetLogs(pod.Name, &corev1.PodLogOptions{}).Stream(ctx)
	if err != nil {
		return facts, fmt.Errorf("read the report of the pod: %w", err)
	}
	defer stream.Close()
	if err := json.NewDecoder(io.LimitReader(stream, mostFacts)).Decode(&facts); err != nil {
		return preflight.Node{}, fmt.Errorf("read the report of the pod: %w", err)
	}
	return facts, nil
}

// escaped returns values as JSON for the command of a pod. The kubelet replaces $(NAME) in a
// command.
func escaped(v preflight.Values) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write the values of the chart: %w", err)
	}
	return strings.ReplaceAll(string(text), "$(", "$$("), nil
}

// untilEnded waits until a pod has succeeded.
func (r *Reader) untilEnded(ctx context.Context, pod *corev1.Pod) error {
	var last *corev1.Pod
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		now, err := r.api.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		last = now
		if now.Status.Phase == corev1.PodFailed {
			return false, errors.New("the pod failed")
		}
		return now.Status.Phase == corev1.PodSucceeded, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the pod %s/%s (%s): %w", pod.Namespace, pod.Name, stateOf(last), err)
	}
	return nil
}

// stateOf explains the state of a pod.
func stateOf(pod *corev1.Pod) string {
	if pod == nil {
		return "not read"
	}
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil {
			return strings.TrimSpace(waiting.Reason + " " + waiting.Message)
		}
		if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return strings.TrimSpace(fmt.Sprintf("exit status %d %s", ended.ExitCode, ended.Message))
		}
	}
	return string(pod.Status.Phase)
}

// hostFolder is the pod's folder with the files of its node.
const hostFolder = "/host"

// on returns the pod for a node: it has the network, the processes and the files of the node,
// as the daemon will have them, and needs no network for pods.
func (p NodePods) on(node, values string) *corev1.Pod {
	propagation := corev1.MountPropagationHostToContainer
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "alioth-preflight-", Namespace: p.Namespace,
			Labels: map[string]string{"app.kubernetes.io/name": "alioth-preflight"},
		},
		Spec: corev1.PodSpec{
			NodeName: node, HostNetwork: true, HostPID: true, RestartPolicy: corev1.RestartPolicyNever,
			DNSPolicy:                    corev1.DNSDefault,
			AutomountServiceAccountToken: ptr.To(false), ActiveDeadlineSeconds: ptr.To(int64(p.Within / time.Second)),
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "preflight", Image: p.Image, ImagePullPolicy: p.PullPolicy,
				Command: []string{
					"/usr/local/bin/aliothctl",
					"preflight",
					"--node",
					"--root=" + hostFolder,
					"--facts=" + values,
				},
				SecurityContext:          &corev1.SecurityContext{Privileged: ptr.To(true)},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				VolumeMounts: []corev1.VolumeMount{
					{Name: "host", MountPath: hostFolder, ReadOnly: true, MountPropagation: &propagation},
					{Name: "temporary", MountPath: "/tmp"},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
				{Name: "temporary", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
}
