// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

func TestConvertPod_ProbesAndHooks_NetworkOnesFound(t *testing.T) {
	onPort := func(port intstr.IntOrString) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: port}}
	}
	probe := func(handler corev1.ProbeHandler) *corev1.Probe { return &corev1.Probe{ProbeHandler: handler} }
	named := corev1.Container{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}
	tests := map[string]struct {
		init, regular func(*corev1.Container)
		wantProbes    bool
		wantHooks     bool
		wantHost      string
	}{
		"nothing": {},
		"exec probe": {regular: func(c *corev1.Container) {
			c.LivenessProbe = probe(corev1.ProbeHandler{Exec: &corev1.ExecAction{}})
		}},
		"HTTP liveness probe": {wantProbes: true, regular: func(c *corev1.Container) {
			c.LivenessProbe = probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{}})
		}},
		"TCP readiness probe": {wantProbes: true, regular: func(c *corev1.Container) {
			c.ReadinessProbe = probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}})
		}},
		"gRPC startup probe of a sidecar": {wantProbes: true, init: func(c *corev1.Container) {
			c.StartupProbe = probe(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}})
		}},
		"exec hook": {regular: func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}}
		}},
		"hooks by name, number and number as text": {
			wantProbes: true, wantHooks: true,
			init: func(c *corev1.Container) {
				c.Lifecycle = &corev1.Lifecycle{PreStop: onPort(intstr.FromString("443"))}
			},
			regular: func(c *corev1.Container) {
				c.Lifecycle = &corev1.Lifecycle{
					PostStart: onPort(intstr.FromString("http")),
					PreStop:   &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}},
				}
			},
		},
		"probes and hooks that name a host": {wantHost: "192.0.2.9", regular: func(c *corev1.Container) {
			c.LivenessProbe = probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "192.0.2.9"}})
			c.ReadinessProbe = probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "host.example"}})
			c.Lifecycle = &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "192.0.2.9", Port: intstr.FromInt32(443)}},
				PreStop:   &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Host: "host.example", Port: intstr.FromInt32(444)}},
			}
		}},
		"a hook that names a host beside one that doesn't": {
			wantProbes: true, wantHooks: true, wantHost: "192.0.2.9",
			regular: func(c *corev1.Container) {
				c.Lifecycle = &corev1.Lifecycle{
					PostStart: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "192.0.2.9", Port: intstr.FromInt32(443)}},
					PreStop:   onPort(intstr.FromInt32(80)),
				}
			},
		},
		"hook on a port that isn't declared": {wantProbes: true, wantHooks: true, regular: func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: onPort(intstr.FromString("admin"))}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			init, regular := *named.DeepCopy(), *named.DeepCopy()
			if test.init != nil {
				test.init(&init)
			}
			if test.regular != nil {
				test.regular(&regular)
			}
			row, err := convertPod(&corev1.Pod{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{init}, Containers: []corev1.Container{regular},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if row.NetworkProbes != test.wantProbes {
				t.Errorf("NetworkProbes is %v, want %v", row.NetworkProbes, test.wantProbes)
			}
			if row.NetworkHooks != test.wantHooks || row.ProbeHost != test.wantHost {
				t.Errorf("NetworkHooks is %v, ProbeHost %q; want %v, %q", row.NetworkHooks, row.ProbeHost, test.wantHooks, test.wantHost)
			}
		})
	}
}

func TestConvertPod_HostPorts_OfLastingContainers(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	row, err := convertPod(&corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Ports: []corev1.ContainerPort{{HostPort: 70, ContainerPort: 1}}},
			{RestartPolicy: &always, Ports: []corev1.ContainerPort{{HostPort: 71, ContainerPort: 2, Protocol: corev1.ProtocolUDP}}},
		},
		Containers: []corev1.Container{
			{Ports: []corev1.ContainerPort{{ContainerPort: 3}, {HostPort: 73, ContainerPort: 3, HostIP: "192.0.2.1"}}},
			{Ports: []corev1.ContainerPort{
				{HostPort: 74, ContainerPort: 4, HostIP: "0.0.0.0", Protocol: corev1.ProtocolSCTP},
				{HostPort: 74, ContainerPort: 4, HostIP: "::", Protocol: corev1.ProtocolSCTP},
				{HostPort: 75, ContainerPort: 5, HostIP: "nonsense"},
			}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []store.HostPort{
		{Protocol: "UDP", HostPort: 71, Port: 2},
		{Protocol: "TCP", HostIP: netip.MustParseAddr("192.0.2.1"), HostPort: 73, Port: 3},
		{Protocol: "SCTP", HostPort: 74, Port: 4},
	}
	if diff := cmp.Diff(want, row.HostPorts, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConvertPod_Metadata_Read(t *testing.T) {
	isController := true
	in := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "u",
			Labels: map[string]string{arktosv1.NetworkLabel: "vpc-1"},
			Annotations: map[string]string{
				arktosv1.NICAnnotation: "{}", v1alpha1.AttachmentsAnnotation: "[]", arktosv1.ReadinessAnnotation: "true",
			},
			OwnerReferences: []metav1.OwnerReference{{UID: "other"}, {UID: "owner", Controller: &isController}},
		},
		Spec: corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodFailed,
			Conditions: []corev1.PodCondition{{Type: v1alpha1.NetworkReadyCondition, Reason: "IPInUse", Message: "taken"}},
		},
	}
	got, err := convertPod(in)
	if err != nil {
		t.Fatal(err)
	}
	want := &store.Pod{
		Meta: store.Meta{UID: "u"}, Namespace: "shop", Name: "web", OwnerUID: "owner", Node: "node-1",
		Network: "vpc-1", Labels: in.Labels, NIC: "{}", Attachments: "[]", AnnotationBytes: 26, NetworkReady: true, Terminal: true,
		Reason: "IPInUse", Message: "taken",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestConvertPod_Devices_OfLastingContainers(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := func(name corev1.ResourceName, n string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{name: resource.MustParse(n)}}}
	}
	sidecar := container("vendor.example/fast", "1")
	sidecar.RestartPolicy = &always
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{container("vendor.example/fast", "8"), sidecar},
		Containers: []corev1.Container{
			container("vendor.example/fast", "2"), container("vendor.example/gpu", "1"), container("cpu", "4"),
			container("hugepages-2Mi", "4Mi"), container("kubernetes.io/batch", "1"),
		},
	}}
	row, err := convertPod(pod)
	if diff := cmp.Diff(map[string]int{"vendor.example/fast": 3, "vendor.example/gpu": 1}, row.Devices); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestConvertPod_EndpointFields_AsKubernetesReads(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	ports := func(list ...corev1.ContainerPort) corev1.Container { return corev1.Container{Ports: list} }
	sidecar := ports(corev1.ContainerPort{Name: "proxy", ContainerPort: 15000})
	sidecar.RestartPolicy = &always
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{
			Hostname: "h", Subdomain: "s",
			InitContainers: []corev1.Container{ports(corev1.ContainerPort{Name: "setup", ContainerPort: 1}), sidecar},
			Containers: []corev1.Container{
				ports(corev1.ContainerPort{ContainerPort: 9}, corev1.ContainerPort{Name: "web", ContainerPort: 8080, Protocol: corev1.ProtocolUDP}),
				ports(corev1.ContainerPort{Name: "web", ContainerPort: 8081}),
			},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	want := &store.PodEndpoint{Ready: true, Hostname: "h", Subdomain: "s", Ports: []store.NamedPort{
		{Name: "web", Protocol: "UDP", Port: 8080}, {Name: "web", Protocol: "TCP", Port: 8081}, {Name: "proxy", Protocol: "TCP", Port: 15000},
	}}
	if diff := cmp.Diff(want, PodEndpoint(pod)); diff != "" {
		t.Errorf("endpoint (-want +got):\n%s", diff)
	}
	pod.Status.Conditions[1].Status = corev1.ConditionUnknown
	if PodEndpoint(pod).Ready {
		t.Error("a pod of unknown readiness is ready")
	}
}
