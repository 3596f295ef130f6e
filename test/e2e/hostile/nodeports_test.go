// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// TestForgedSlice_NodePort_OpensNothing writes slices of a Service of the default VPC that name a
// node's address, kubelet's port, and a pod that is truly on that node's network, but in another
// namespace. Another port of the same Service shows that the slices are read.
func TestForgedSlice_NodePort_OpensNothing(t *testing.T) {
	t.Parallel()
	e := start(t)
	node := e.Lab.Nodes()[1]
	namespace := scene.Namespace(stage.Unique("forger"), "")
	e.Make(t, namespace)
	if err := e.WaitForAccount(stage.Within(t, stage.Patience), namespace.Name); err != nil {
		t.Fatal(err)
	}
	mine := scene.Pod(namespace.Name, "mine", scene.OnNode(node.Name))
	e.Run(t, mine)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "forged"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{
			{Name: "forged", Port: 1}, {Name: "true", Port: 2},
		}},
	}
	e.Make(t, service)
	e.Make(t, sliceOf(service, "forged", 10250, e.systemPod(t, node.Name), node.IPv4))
	e.Make(t, sliceOf(service, "true", report.PortEcho, mine, scene.IP(mine, false)))
	at := func(i int) string { return scene.TargetPort("tcp", node.IPv4, uint16(service.Spec.Ports[i].NodePort)) }
	ask := func(target string) report.Probe {
		out := e.OnNode(t, e.Lab.Nodes()[0].Name, "testtool", "probe", "--timeout", "1s", target)
		results, err := scene.ParseLines[report.Probe](out)
		if err != nil || len(results) != 1 {
			t.Fatalf("%q: %v", out, err)
		}
		return results[0]
	}
	err := scene.Until(stage.Within(t, stage.Patience), "the pod to be asked", func(context.Context) (bool, string, error) {
		r := ask(at(1))
		return r.OK && r.Name == scene.ServerName(mine.Namespace, mine.Name), fmt.Sprintf("%+v", r), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := ask(at(0)); r.OK || !strings.Contains(r.Error, "refused") {
		t.Errorf("the node port leads to kubelet: %+v", r)
	}
}

// systemPod is one on a node's network that is not the tenant's.
func (e *env) systemPod(t *testing.T, node string) *corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	if err := e.Client.List(stage.Within(t, stage.Patience), list, client.MatchingFields{"spec.nodeName": node}); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list.Items, func(pod corev1.Pod) bool { return pod.Spec.HostNetwork && pod.Status.Phase == corev1.PodRunning })
	if at < 0 {
		t.Fatalf("no pod is on the network of %s", node)
	}
	return &list.Items[at]
}

// sliceOf returns a slice that says that a pod at an address serves one port of a Service.
func sliceOf(service *corev1.Service, name string, port int32, pod *corev1.Pod, ip netip.Addr) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: service.Name + "-" + name, Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Protocol: ptr.To(corev1.ProtocolTCP), Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{ip.String()}, NodeName: &pod.Spec.NodeName,
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		}},
	}
}
