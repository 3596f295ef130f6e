// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/values"
)

// Pod is the kind of a pod that is not on its node's network. A node follows its own
// pods of both sorts.
var Pod = descriptor.Define(&all, describePod())

func describePod() descriptor.Description[*corev1.Pod, store.Pod] {
	return descriptor.Description[*corev1.Pod, store.Pod]{
		Name: "Pod", Object: &corev1.Pod{}, List: &corev1.PodList{}, Convert: convertPod,
		Table: descriptor.ByUID(store.GetPod, store.PutPod, store.DeletePod),
		Verdict: func(row *store.Pod) descriptor.Verdict {
			return descriptor.Verdict{
				ID:    descriptor.ID{Namespace: row.Namespace, Name: row.Name, UID: row.UID},
				Ready: row.Terminal || row.Reason == v1alpha1.AttachedReason, Reason: row.Reason, Message: row.Message,
			}
		},
		Rows:      store.AllPods,
		OwnEvents: true,
		OnNode: func(node string) descriptor.Scope {
			scope := descriptor.WithField("spec.nodeName")(node)
			scope.Kind = podOfAnySort()
			return scope
		},
	}
}

// podOfAnySort returns the kind of a pod which has a row of one of two types.
func podOfAnySort() *descriptor.Kind {
	kind := descriptor.Untyped(describePod())
	host := descriptor.Untyped(descriptor.Description[*corev1.Pod, store.HostPod]{
		Name: "Pod", Object: &corev1.Pod{}, List: &corev1.PodList{}, Convert: convertHostPod,
		Table: descriptor.ByUID(store.GetHostPod, store.PutHostPod, store.DeleteHostPod),
	})
	kind.Rows = rowsOfAnySort{Rows: kind.Rows, host: host.Rows}
	return kind
}

// rowsOfAnySort has the rows of pods that are not on their node's network, and the rows of pods
// that are. The sort never changes in the pod's life.
type rowsOfAnySort struct {
	descriptor.Rows
	host descriptor.Rows
}

// Row implements descriptor.Rows.
func (s rowsOfAnySort) Row(object kube.Object) (any, error) {
	if row, err := s.Rows.Row(object); row != nil || err != nil {
		return row, err
	}
	return s.host.Row(object)
}

// Has implements descriptor.Rows.
func (s rowsOfAnySort) Has(row any) bool { return s.Rows.Has(row) || s.host.Has(row) }

// Get implements descriptor.Rows.
func (s rowsOfAnySort) Get(tx store.ReadTx, id descriptor.ID) any {
	if row := s.Rows.Get(tx, id); row != nil {
		return row
	}
	return s.host.Get(tx, id)
}

// Put implements descriptor.Rows.
func (s rowsOfAnySort) Put(tx store.Tx, row any) error {
	if s.host.Has(row) {
		return s.host.Put(tx, row)
	}
	return s.Rows.Put(tx, row)
}

// Delete implements descriptor.Rows.
func (s rowsOfAnySort) Delete(tx store.Tx, id descriptor.ID) error {
	return errors.Join(s.Rows.Delete(tx, id), s.host.Delete(tx, id))
}

// convertHostPod converts a pod on the network of its node, or returns nil for any other.
// It never fails.
func convertHostPod(in *corev1.Pod) (*store.HostPod, error) {
	if !in.Spec.HostNetwork {
		return nil, nil
	}
	return &store.HostPod{
		Meta: values.Meta(in), Namespace: in.Namespace, Name: in.Name, Node: in.Spec.NodeName, Terminal: isTerminal(in),
	}, nil
}

func isTerminal(in *corev1.Pod) bool {
	return in.Status.Phase == corev1.PodSucceeded || in.Status.Phase == corev1.PodFailed
}

// convertPod converts a pod. It returns nil for a pod on the network of its node, because Alioth
// gives such a pod no network. The row of the namespace has the tenant. It never fails.
func convertPod(in *corev1.Pod) (*store.Pod, error) {
	if in.Spec.HostNetwork {
		return nil, nil
	}
	row := &store.Pod{
		Meta:          values.Meta(in),
		Namespace:     in.Namespace,
		Name:          in.Name,
		Node:          in.Spec.NodeName,
		StaticUID:     in.Annotations[corev1.MirrorPodAnnotationKey],
		Network:       in.Labels[arktosv1.NetworkLabel],
		Labels:        in.Labels,
		NIC:           in.Annotations[arktosv1.NICAnnotation],
		Attachments:   in.Annotations[v1alpha1.AttachmentsAnnotation],
		Selections:    in.Annotations[annotations.NetworksKey],
		NetworkStatus: in.Annotations[annotations.NetworkStatusKey],

		DefaultSelection: in.Annotations[annotations.DefaultNetworkKey],
		NetworkReady:     in.Annotations[arktosv1.ReadinessAnnotation] == "true",

		AnnotationBytes: annotationBytes(in),
		Terminal:        isTerminal(in),
		NetworkProbes:   hasNetworkProbes(&in.Spec),
		ProbeTimeout:    probeTimeout(&in.Spec),
		NetworkHooks:    hasNetworkHooks(&in.Spec),
		ProbeHost:       probeHost(&in.Spec),
		HostPorts:       hostPorts(&in.Spec),
		Devices:         devices(&in.Spec),
	}
	var err error
	if row.Interfaces, row.InterfacesKey, err = annotations.InterfacesOf(in.Annotations); err != nil {
		row.InterfacesProblem = err.Error()
	}
	if owner := metav1.GetControllerOfNoCopy(in); owner != nil {
		row.OwnerUID = string(owner.UID)
	}
	if row.Attachments == "" {
		row.IPs = podIPs(in)
	}
	row.Reason, row.Message = networkReadiness(in)
	return row, nil
}

// annotationBytes returns the length of the keys and values of a pod's annotations, as the API
// server adds them, without annotations of the operator.
func annotationBytes(in *corev1.Pod) (sum int) {
	for key, value := range in.Annotations {
		switch key {
		case v1alpha1.AttachmentsAnnotation, arktosv1.ReadinessAnnotation, arktosv1.UserInputAnnotation:
		default:
			sum += len(key) + len(value)
		}
	}
	return sum
}

// networkReadiness returns reason and message of the condition NetworkReady.
func networkReadiness(in *corev1.Pod) (reason, message string) {
	for _, condition := range in.Status.Conditions {
		if condition.Type == v1alpha1.NetworkReadyCondition {
			return condition.Reason, condition.Message
		}
	}
	return "", ""
}

// podIPs returns the IPs that the kubelet has reported. It leaves out text that is not an
// address.
func podIPs(in *corev1.Pod) []netip.Addr {
	var ips []netip.Addr
	for _, one := range in.Status.PodIPs {
		if ip, err := netip.ParseAddr(one.IP); err == nil {
			ips = append(ips, ip.Unmap())
		}
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return ips
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

// networkProbes returns the probes of a container that go to the pod's own address.
func networkProbes(container *corev1.Container) []*corev1.Probe {
	return slices.DeleteFunc(probes(container), func(probe *corev1.Probe) bool {
		return !toPod(probe.HTTPGet, probe.TCPSocket) && probe.GRPC == nil
	})
}

func probes(container *corev1.Container) []*corev1.Probe {
	all := []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe, container.StartupProbe}
	return slices.DeleteFunc(all, func(probe *corev1.Probe) bool { return probe == nil })
}

// probeTimeout returns the longest timeout of a network probe.
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
	}
	return hasNetworkHooks(spec)
}

func hasNetworkHooks(spec *corev1.PodSpec) bool {
	for container := range containers(spec) {
		for _, hook := range hooks(container) {
			if toPod(hook.HTTPGet, hook.TCPSocket) {
				return true
			}
		}
	}
	return false
}

// probeHost returns the first host that a probe or hook names.
func probeHost(spec *corev1.PodSpec) string {
	for container := range containers(spec) {
		for _, probe := range probes(container) {
			if host := hostOf(probe.HTTPGet, probe.TCPSocket); host != "" {
				return host
			}
		}
		for _, hook := range hooks(container) {
			if host := hostOf(hook.HTTPGet, hook.TCPSocket); host != "" {
				return host
			}
		}
	}
	return ""
}

func hostOf(get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) string {
	switch {
	case get != nil:
		return get.Host
	case socket != nil:
		return socket.Host
	}
	return ""
}

// toPod reports whether a probe or hook with these actions goes to the pod's own
// address. A probe with a host goes to that host, so it must not count as one to the
// pod's IP.
func toPod(get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) bool {
	return get != nil && get.Host == "" || socket != nil && socket.Host == ""
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

// lasting yields the containers that run for as long as the pod: the regular ones and
// sidecars.
func lasting(spec *corev1.PodSpec) func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for i := range spec.InitContainers {
			if isSidecar(&spec.InitContainers[i]) && !yield(&spec.InitContainers[i]) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(&spec.Containers[i]) {
				return
			}
		}
	}
}

// isSidecar reports whether an init container runs for as long as its pod.
func isSidecar(container *corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// devices counts the extended resources that lasting containers request. Their requests and
// limits are equal. Other init containers give their devices back when they end.
func devices(spec *corev1.PodSpec) map[string]int {
	var counts map[string]int
	for container := range lasting(spec) {
		for name, quantity := range container.Resources.Limits {
			if !isExtended(name) {
				continue
			}
			if counts == nil {
				counts = map[string]int{}
			}
			counts[string(name)] += int(quantity.Value())
		}
	}
	return counts
}

// isExtended reports whether a resource is an extended one, which has the name of a domain
// in front (Kubernetes, "Extended resources").
func isExtended(name corev1.ResourceName) bool {
	domain, _, qualified := strings.Cut(string(name), "/")
	return qualified && domain != "kubernetes.io" && !strings.HasPrefix(domain, corev1.DefaultResourceRequestsPrefix)
}

// hostPorts returns the host ports of lasting containers. It leaves out text that is not an
// address: the API's schema judges it.
func hostPorts(spec *corev1.PodSpec) []store.HostPort {
	var list []store.HostPort
	for container := range lasting(spec) {
		for _, port := range container.Ports {
			row, ok := hostPort(port)
			if ok && !slices.Contains(list, row) {
				list = append(list, row)
			}
		}
	}
	return list
}

func hostPort(port corev1.ContainerPort) (store.HostPort, bool) {
	row := store.HostPort{
		Protocol: string(
			cmp.Or(port.Protocol, corev1.ProtocolTCP),
		), HostPort: values.Port(port.HostPort), Port: values.Port(port.ContainerPort),
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
	return row, row.HostPort != 0 && row.Port != 0
}
