// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// Pod converts a pod, or returns nil for one on the host network, which Alioth
// leaves alone. The tenant is left to the row of its namespace. It never fails.
func Pod(in *corev1.Pod) (*store.Pod, error) {
	if in.Spec.HostNetwork {
		return nil, nil
	}
	row := &store.Pod{
		Meta:          rowMeta(in),
		Namespace:     in.Namespace,
		Name:          in.Name,
		Node:          in.Spec.NodeName,
		Network:       in.Labels[arktosv1.NetworkLabel],
		NIC:           in.Annotations[arktosv1.NICAnnotation],
		Attachments:   in.Annotations[v1alpha1.AttachmentsAnnotation],
		NetworkReady:  in.Annotations[arktosv1.ReadinessAnnotation] == "true",
		Terminal:      in.Status.Phase == corev1.PodSucceeded || in.Status.Phase == corev1.PodFailed,
		NetworkProbes: hasNetworkProbes(&in.Spec),
		ProbeTimeout:  probeTimeout(&in.Spec),
		HookPorts:     hookPorts(&in.Spec),
		HostPorts:     hostPorts(&in.Spec),
	}
	if owner := metav1.GetControllerOfNoCopy(in); owner != nil {
		row.OwnerUID = string(owner.UID)
	}
	for _, condition := range in.Status.Conditions {
		if condition.Type == v1alpha1.NetworkReadyCondition {
			row.Reason, row.Message = condition.Reason, condition.Message
		}
	}
	return row, nil
}

// containers yields the containers that the kubelet probes or runs hooks of:
// the regular ones and, as sidecars, init containers. Ephemeral containers have
// neither.
func containers(spec *corev1.PodSpec) func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// networkProbes are the probes of a container that go to the pod's own address.
func networkProbes(container *corev1.Container) []*corev1.Probe {
	var list []*corev1.Probe
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe, container.StartupProbe} {
		if probe != nil && (toPod(probe.HTTPGet, probe.TCPSocket) || probe.GRPC != nil) {
			list = append(list, probe)
		}
	}
	return list
}

// probeTimeout is the longest timeout of a network probe.
func probeTimeout(spec *corev1.PodSpec) time.Duration {
	var longest time.Duration
	for container := range containers(spec) {
		for _, probe := range networkProbes(container) {
			longest = max(longest, time.Duration(max(probe.TimeoutSeconds, 1))*time.Second) // 1 is the API's default
		}
	}
	return longest
}

func hasNetworkProbes(spec *corev1.PodSpec) bool {
	for container := range containers(spec) {
		if len(networkProbes(container)) > 0 {
			return true
		}
		for _, hook := range hooks(container) {
			if toPod(hook.HTTPGet, hook.TCPSocket) {
				return true
			}
		}
	}
	return false
}

// toPod says whether a probe or hook with these actions goes to the pod's own
// address. One that names a host goes to that, so the pod's IP must not stand
// for it.
func toPod(get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) bool {
	return get != nil && get.Host == "" || socket != nil && socket.Host == ""
}

func hookPorts(spec *corev1.PodSpec) []uint16 {
	var ports []uint16
	for container := range containers(spec) {
		for _, hook := range hooks(container) {
			if port, ok := hookPort(hook, container); ok {
				ports = append(ports, port)
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

func hooks(container *corev1.Container) []*corev1.LifecycleHandler {
	var found []*corev1.LifecycleHandler
	if lifecycle := container.Lifecycle; lifecycle != nil {
		for _, hook := range []*corev1.LifecycleHandler{lifecycle.PostStart, lifecycle.PreStop} {
			if hook != nil {
				found = append(found, hook)
			}
		}
	}
	return found
}

func hookPort(hook *corev1.LifecycleHandler, container *corev1.Container) (uint16, bool) {
	if !toPod(hook.HTTPGet, hook.TCPSocket) {
		return 0, false
	}
	if hook.HTTPGet != nil {
		return resolvePort(hook.HTTPGet.Port, container)
	}
	return resolvePort(hook.TCPSocket.Port, container)
}

// resolvePort does as the kubelet: a name is looked up among the container's
// own ports, and may be a number after all.
func resolvePort(port intstr.IntOrString, container *corev1.Container) (uint16, bool) {
	number := int(port.IntVal)
	if port.Type == intstr.String {
		number = namedPort(port.StrVal, container)
	}
	return uint16(number), number > 0 && number <= 65535
}

func namedPort(name string, container *corev1.Container) int {
	for _, port := range container.Ports {
		if port.Name == name {
			return int(port.ContainerPort)
		}
	}
	number, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	return number
}

// hostPorts are those of the containers that run for as long as the pod: the
// regular ones and sidecars. Text that is no address is left to the API's schema.
func hostPorts(spec *corev1.PodSpec) []store.HostPort {
	var list []store.HostPort
	add := func(container *corev1.Container) {
		for _, port := range container.Ports {
			row, ok := hostPort(port)
			if ok && !slices.Contains(list, row) {
				list = append(list, row)
			}
		}
	}
	for i := range spec.InitContainers {
		always := spec.InitContainers[i].RestartPolicy
		if always != nil && *always == corev1.ContainerRestartPolicyAlways {
			add(&spec.InitContainers[i])
		}
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	return list
}

func hostPort(port corev1.ContainerPort) (store.HostPort, bool) {
	row := store.HostPort{
		Protocol: string(cmp.Or(port.Protocol, corev1.ProtocolTCP)), HostPort: uint16(port.HostPort), Port: uint16(port.ContainerPort),
	}
	if port.HostIP != "" {
		ip, err := netip.ParseAddr(port.HostIP)
		if err != nil {
			return row, false
		}
		if !ip.IsUnspecified() {
			row.HostIP = ip.Unmap()
		}
	}
	return row, port.HostPort != 0
}
