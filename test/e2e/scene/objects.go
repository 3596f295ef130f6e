// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// Image is the test image that the lab loads on every node.
const Image = "docker.io/alioth/testtool:dev"

// Tool is the test tool's path in its image.
const Tool = "/testtool"

// Namespace returns a namespace that belongs to a tenant; an empty tenant
// leaves the label off, so that the namespace is a tenant of its own.
func Namespace(name, tenant string) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if tenant != "" {
		namespace.Labels = map[string]string{v1alpha1.TenantLabel: tenant}
	}
	return namespace
}

// VPC returns a VPC that allows the given tenants and lets nothing out.
func VPC(name string, tenants []string, cidrs ...string) *v1alpha1.VPC {
	return &v1alpha1.VPC{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.VPCSpec{CIDRs: cidrs, AllowedTenants: tenants, Egress: v1alpha1.EgressNone},
	}
}

// Subnet returns a subnet named <vpc>-<short>, whose name within the VPC is
// short.
func Subnet(vpc, short string, cidrs ...string) *v1alpha1.Subnet {
	return &v1alpha1.Subnet{
		ObjectMeta: metav1.ObjectMeta{Name: vpc + "-" + short},
		Spec:       v1alpha1.SubnetSpec{VPC: vpc, Name: short, CIDRs: cidrs},
	}
}

// Network returns a Network of type mizar for a VPC.
func Network(namespace, name, vpc string) *arktosv1.Network {
	return &arktosv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       arktosv1.NetworkSpec{Type: arktosv1.TypeMizar, VPCID: vpc},
	}
}

// Service returns a Service in front of the pods of a namespace with a label "app", with
// the ports of the test image's echo and HTTP servers, for both families.
func Service(namespace, name, app string) *corev1.Service {
	port := func(name string, protocol corev1.Protocol, number int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Protocol: protocol, Port: number, TargetPort: intstr.FromInt32(number)}
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app}, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyPreferDualStack),
			Ports: []corev1.ServicePort{
				port(
					"tcp",
					corev1.ProtocolTCP,
					report.PortEcho,
				), port("udp", corev1.ProtocolUDP, report.PortEcho), port("http", corev1.ProtocolTCP, report.PortHTTP),
			},
		},
	}
}

// PodOption changes a pod before it is created.
type PodOption func(*corev1.Pod)

// Pod returns a pod of the test image that serves under its own
// "<namespace>/<name>" and ends at once when deleted.
func Pod(namespace, name string, options ...PodOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{
				Name:            "main",
				Image:           Image,
				ImagePullPolicy: corev1.PullNever,
				Command:         []string{Tool, "serve", "--name", ServerName(namespace, name)},
			}},
		},
	}
	for _, option := range options {
		option(pod)
	}
	withAgent(pod)
	return pod
}

// ServerName returns the name that a pod's server gives itself.
func ServerName(namespace, name string) string { return namespace + "/" + name }

// OnNode pins a pod to a node, through the scheduler.
func OnNode(node string) PodOption {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
}

// InNetwork puts a pod into the Network of that name; "" leaves the label off.
func InNetwork(network string) PodOption {
	return func(pod *corev1.Pod) {
		if network != "" {
			metav1.SetMetaDataLabel(&pod.ObjectMeta, arktosv1.NetworkLabel, network)
		}
	}
}

// WithNIC sets the nic annotation; "" leaves it off.
func WithNIC(text string) PodOption {
	return func(pod *corev1.Pod) {
		if text != "" {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, arktosv1.NICAnnotation, text)
		}
	}
}

// WithInterfaces sets the interfaces annotation of DANM.
func WithInterfaces(text string) PodOption {
	return func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotations.InterfacesKey, text) }
}

// WithSelections sets the annotation that selects NetworkAttachmentDefinitions.
func WithSelections(text string) PodOption {
	return func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotations.NetworksKey, text) }
}

// WithDefaultNetwork sets the annotation that selects the definition of the first interface.
func WithDefaultNetwork(text string) PodOption {
	return func(pod *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotations.DefaultNetworkKey, text)
	}
}

// WithLabel sets a label.
func WithLabel(key, value string) PodOption {
	return func(pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value) }
}

// machineCommand of the test tool runs another command in a network namespace that the node has no
// record of, so that its packets are translated one by one.
const machineCommand = "machine"

// AsMachine has the pod behave like one with a virtual machine.
func AsMachine() PodOption {
	return func(pod *corev1.Pod) {
		container := &pod.Spec.Containers[0]
		container.Command = append([]string{Tool, machineCommand}, container.Command[1:]...)
		container.SecurityContext = &corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN", "NET_ADMIN"}},
		}
	}
}

// IsMachine reports whether the pod behaves like one with a virtual machine.
func IsMachine(pod *corev1.Pod) bool {
	return slices.Contains(pod.Spec.Containers[0].Command, machineCommand)
}

// ToolIn is how the test tool is called in a pod.
func ToolIn(pod *corev1.Pod, args ...string) []string {
	command := []string{Tool}
	if IsMachine(pod) {
		command = append(command, machineCommand)
	}
	return append(command, args...)
}

// WithHostPort opens a port of the node for one of the pod's ports.
func WithHostPort(protocol corev1.Protocol, hostIP string, hostPort, port int32) PodOption {
	return func(pod *corev1.Pod) {
		container := &pod.Spec.Containers[0]
		container.Ports = append(
			container.Ports,
			corev1.ContainerPort{Protocol: protocol, HostIP: hostIP, HostPort: hostPort, ContainerPort: port},
		)
	}
}

// WithReadiness sets the readiness probe's handler, asked every second, or every five for a command.
func WithReadiness(handler corev1.ProbeHandler) PodOption {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].ReadinessProbe = probe(handler) }
}

// WithLiveness sets the liveness probe's handler, asked every second, or every five for a command. It gives
// up much later than a readiness probe, so that a container which fails both
// is seen not to be ready before it is restarted.
func WithLiveness(handler corev1.ProbeHandler) PodOption {
	return func(pod *corev1.Pod) {
		liveness := probe(handler)
		liveness.FailureThreshold = 10
		pod.Spec.Containers[0].LivenessProbe = liveness
	}
}

func probe(handler corev1.ProbeHandler) *corev1.Probe {
	every := &corev1.Probe{ProbeHandler: handler, PeriodSeconds: 1, TimeoutSeconds: 2, FailureThreshold: 2}
	// A command starts five processes, which take a slow machine a third of a second of a
	// processor. Commands every second would take all processors.
	if handler.Exec != nil {
		every.PeriodSeconds, every.TimeoutSeconds = 5, 5
	}
	return every
}

// HostAccess grants tenants ports of nodes.
func HostAccess(name string, tenants []string, ports ...string) *v1alpha1.HostAccess {
	return &v1alpha1.HostAccess{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.HostAccessSpec{AllowedTenants: tenants, HostPorts: ports},
	}
}
