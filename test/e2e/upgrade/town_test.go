// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

const (
	// cable is the device of the nodes for interfaces outside of VPCs, second such an
	// interface in a pod.
	cable, second = "upgrade0", "wave1"
	// bridge is the device that a policy makes on the second node.
	bridge = "nns-upgrade"
	// hostNumber ends the address of the host outside of the cluster.
	hostNumber = 219
)

// town has the parts that must not notice that Alioth's version changes: two tenants with the same
// ranges, with all sorts of traffic.
type town struct {
	*env
	blue, red *scene.Tenant
	// client and near are on the first node, far is on the second, behind all Services.
	client, near, far *corev1.Pod
	// machine is like a pod with a virtual machine: its packets are translated one by one.
	machine *corev1.Pod
	// other and otherFar are of the other tenant, with the addresses of blue's pods.
	other, otherFar *corev1.Pod
	// left and right have a further interface, on two nodes.
	left, right *corev1.Pod
	// web has a ClusterIP and node ports, balanced an address in the VPC.
	web, balanced *corev1.Service
	policy        *nmstatev1.NodeNetworkConfigurationPolicy
	host          *cluster.Host
	// guests came while versions changed, and stayed.
	guests []*corev1.Pod
}

func (e *env) town(t *testing.T) *town {
	t.Helper()
	here, there := e.Nodes()
	w := &town{env: e}
	e.Cable(t, cable)
	w.host = e.OutsideHost(t, "upgrades", hostNumber)
	w.blue, w.red = e.Tenant(t, stage.Overlapping("blue")), e.Tenant(t, stage.Overlapping("red"))
	further := w.furtherNetwork(t)
	w.makeServices(t)
	w.policy = stage.NetworkPolicy(
		stage.Unique("upgrade"),
		there,
		`{"interfaces":[{"name":"`+bridge+`","type":"linux-bridge","state":"up","bridge":{"port":[]}}]}`,
	)
	e.Make(t, w.policy)

	w.client, w.near = w.blue.Pod("client", append(probed(), scene.OnNode(here))...), w.blue.Pod("near", append(probed(), scene.OnNode(here))...)
	w.far = w.blue.Pod("far", append(probed(), scene.OnNode(there), scene.WithLabel("app", "web"))...)
	w.machine = w.blue.Pod("machine", scene.OnNode(here), scene.AsMachine())
	w.left, w.right = w.blue.Pod("left", further, scene.OnNode(here)), w.blue.Pod("right", further, scene.OnNode(there))
	// Of two pods of a node with one address, one alone may have network probes.
	w.other, w.otherFar = w.red.Pod("client", scene.OnNode(here)), w.red.Pod("far", scene.OnNode(there))
	e.RunFor(t, w.pods()...)
	e.AwaitPolicy(t, w.policy, nmstatev1.AvailableCondition)
	return w
}

// pods returns the pods that live through all changes.
func (w *town) pods() []*corev1.Pod {
	return []*corev1.Pod{w.client, w.near, w.far, w.machine, w.left, w.right, w.other, w.otherFar}
}

// probed gives a pod probes that let the kubelet try its network.
func probed() []scene.PodOption {
	probe := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(report.PortHTTP)}}
	return []scene.PodOption{scene.WithReadiness(probe), scene.WithLiveness(probe)}
}

// furtherNetwork makes a network on the cable, and returns an option that gives a pod an interface
// in it.
func (w *town) furtherNetwork(t *testing.T) scene.PodOption {
	t.Helper()
	own := metav1.ObjectMeta{Namespace: w.blue.Namespace.Name, Name: "wave"}
	network := &danmv1.DanmNet{ObjectMeta: own, Spec: danmv1.NetworkSpec{
		NetworkID: "wave", NetworkType: "macvlan", Options: danmv1.NetworkOptions{HostDevice: cable, CIDR: "10.119.0.0/24", Net6: "fd10:119::/64"},
	}}
	w.MakeNetwork(t, network)
	definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: own}
	definition.Annotations = map[string]string{annotations.NetworkKey: `{"network":"wave"}`}
	w.Make(t, definition)
	w.AwaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	return scene.WithSelections("wave@" + second)
}

// makeServices makes Services of both sorts, with a port for streams beside the usual ones.
func (w *town) makeServices(t *testing.T) {
	t.Helper()
	namespace := w.blue.Namespace.Name
	w.web, w.balanced = scene.Service(namespace, "web", "web"), scene.Service(namespace, "balanced", "web")
	for _, service := range []*corev1.Service{w.web, w.balanced} {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "stream", Port: report.PortStream, TargetPort: intstr.FromInt32(report.PortStream)})
	}
	w.web.Spec.Type = corev1.ServiceTypeNodePort
	w.balanced.Spec.Type, w.balanced.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To(v1alpha1.LoadBalancerClass)
	w.balanced.Spec.AllocateLoadBalancerNodePorts = ptr.To(false)
	subnet := scene.Subnet(w.blue.VPC.Name, "lb", "10.10.9.0/24", "fd10:10:0:9::/64")
	subnet.Spec.Use = v1alpha1.SubnetForServices
	w.Make(t, subnet, w.web, w.balanced)
	w.awaitIngress(t)
}

// nodePort is where the host reaches the stream of the Service: at the node without a backend.
func (w *town) nodePort() netip.AddrPort {
	for _, port := range w.web.Spec.Ports {
		if port.Name == "stream" {
			return netip.AddrPortFrom(w.Lab.Nodes()[0].IPv4, uint16(port.NodePort))
		}
	}
	return netip.AddrPort{}
}

// device returns the index of the bridge on the second node, which a device that was made
// again does not keep.
func (w *town) device(t *testing.T) string {
	t.Helper()
	_, there := w.Nodes()
	index, _, _ := strings.Cut(w.OnNode(t, there, "ip", "-o", "link", "show", "dev", bridge), ":")
	return index
}

// service writes the address of a Service with one of its ports.
func service(ip string, port uint16) string {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), port).String()
}

func udp(network string, ip netip.Addr) string {
	return fmt.Sprintf("%s://%s", network, netip.AddrPortFrom(ip, report.PortEcho))
}
