// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/testtool/agent"
)

// The folder of the agent's socket is a volume, which a node has among its files.
const (
	agentVolume = "agent"
	agentDir    = "/run/agent"
	agentSocket = "socket"
)

// withAgent gives the pod's first container an agent that runs commands. A container that imitates
// a virtual machine has none, because the agent would be a process of the machine.
func withAgent(pod *corev1.Pod) {
	if IsMachine(pod) {
		return
	}
	container := &pod.Spec.Containers[0]
	container.Env = append(container.Env, corev1.EnvVar{Name: agent.PathVariable, Value: path.Join(agentDir, agentSocket)})
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: agentVolume, MountPath: agentDir})
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: agentVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
}

// agentOf returns the place of the agent's socket on this host; an error is an
// agent.ErrNone.
func (s *Scene) agentOf(pod *corev1.Pod) (string, error) {
	isAgents := func(v corev1.Volume) bool { return v.Name == agentVolume }
	if pod.UID == "" || pod.Spec.NodeName == "" || !slices.ContainsFunc(pod.Spec.Volumes, isAgents) {
		return "", fmt.Errorf("%w in %s", agent.ErrNone, nameOf(pod))
	}
	dir, err := s.exec.OnHost(
		pod.Spec.NodeName,
		path.Join("/var/lib/kubelet/pods", string(pod.UID), "volumes/kubernetes.io~empty-dir", agentVolume),
	)
	if err != nil {
		return "", fmt.Errorf("%w in %s: %w", agent.ErrNone, nameOf(pod), err)
	}
	return path.Join(dir, agentSocket), nil
}
