// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// common is the scene that cases share that change no pods: a tenant with servers and clients, and
// a host outside. A case leads Services of its own to the servers.
type common struct {
	tenant *scene.Tenant
	// one and two serve, on the first node and on the second. one has a second echo server,
	// at secondPort.
	one, two *corev1.Pod
	// asker asks on the first node, where its sockets are translated; machine on the second,
	// where its packets are.
	asker, machine *corev1.Pod
	// host is a machine outside of the cluster. It has an address of each family on the nodes'
	// network.
	host *cluster.Host
}

// secondPort is where the second server of pod one echoes.
const secondPort = 7101

// hostNumber ends the addresses of the host.
const hostNumber = 220

// newCommon makes it for the time of a test.
func newCommon(t *testing.T, e *stage.Env) *common {
	t.Helper()
	first, second := e.Nodes()
	c := &common{tenant: e.Tenant(t, stage.Overlapping("reports"))}
	balancing := scene.Subnet(c.tenant.VPC.Name, "lb", "10.10.9.0/24", "fd10:10:0:9::/64")
	balancing.Spec.Use = v1alpha1.SubnetForServices
	e.Make(t, balancing)
	c.one = c.tenant.Pod("one", scene.OnNode(first), withSecondServer)
	c.two = c.tenant.Pod("two", scene.OnNode(second))
	c.asker = c.tenant.Pod("asker", scene.OnNode(first))
	c.machine = c.tenant.Pod("machine", scene.OnNode(second), scene.AsMachine())
	e.Run(t, c.one, c.two, c.asker, c.machine)
	v4, v6 := e.OnUnderlay(hostNumber)
	c.host = e.OutsideHostAt(t, "reporter", v4, v6)
	return c
}

// withSecondServer has a pod run another server, which echoes at secondPort alone.
func withSecondServer(pod *corev1.Pod) {
	second := *pod.Spec.Containers[0].DeepCopy()
	second.Name = "second"
	second.Command = []string{scene.Tool, "serve", "--name", secondName(pod), "--echo", fmt.Sprint(secondPort)}
	for _, other := range []string{"stream", "sink", "round-trip", "http", "grpc"} {
		second.Command = append(second.Command, "--"+other, "0")
	}
	pod.Spec.Containers = append(pod.Spec.Containers, second)
}

// name returns the name that a pod's server gives itself.
func name(pod *corev1.Pod) string { return scene.ServerName(pod.Namespace, pod.Name) }

// secondName returns the name that the second server of a pod gives itself.
func secondName(pod *corev1.Pod) string { return name(pod) + "-second" }

// clients returns the pods that ask.
func (c *common) clients() []*corev1.Pod { return []*corev1.Pod{c.asker, c.machine} }

// nodePort is where a node leads to the port of a Service that has this name.
func nodePort(service *corev1.Service, port string) uint16 {
	for _, p := range service.Spec.Ports {
		if p.Name == port {
			return uint16(p.NodePort)
		}
	}
	return 0
}

// atNodes returns the targets of a protocol at all nodes' IPv4 addresses.
func (l *lab) atNodes(service *corev1.Service, protocol string) []string {
	var targets []string
	for _, node := range l.Lab.Nodes() {
		targets = append(targets, scene.TargetPort(protocol, node.IPv4, nodePort(service, protocol)))
	}
	return targets
}
