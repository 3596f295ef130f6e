// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// onNodesNetwork runs a pod on the network of a node, in a namespace without a tenant.
// Of the test tool's server only the given ports are on.
func (e *env) onNodesNetwork(t *testing.T, node string, ports ...string) *corev1.Pod {
	t.Helper()
	namespace := scene.Namespace(stage.Unique("plain"), "")
	e.Make(t, namespace)
	if err := e.WaitForAccount(stage.Within(t, stage.Patience), namespace.Name); err != nil {
		t.Fatal(err)
	}
	pod := scene.Pod(namespace.Name, "listener", scene.OnNode(node), onHostNetwork)
	container := &pod.Spec.Containers[0]
	container.Command = append(container.Command, "--echo=0", "--stream=0", "--sink=0", "--round-trip=0", "--http=0", "--grpc=0")
	container.Command = append(container.Command, ports...)
	e.Run(t, pod)
	return pod
}

// intrusion is a pod on the network of the second node, with a tenant's pods on both.
type intrusion struct {
	*env
	intruder *corev1.Pod
	// near is on the intruder's node.
	near, far *corev1.Pod
	texts     []string
}

// intrude runs the pods. The intruder's server must have a port. Of two tests that intrude
// one at most is parallel: their pods share a network, and their servers its ports.
func (e *env) intrude(t *testing.T) *intrusion {
	t.Helper()
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("intruded"))
	i := &intrusion{env: e, near: tenant.Pod("near", scene.OnNode(second)), far: tenant.Pod("far", scene.OnNode(first))}
	e.Run(t, i.near, i.far)
	i.intruder = e.onNodesNetwork(t, second, "--echo", "18101")
	return i
}

// refused has the intruder run the test tool, whether or not its kernel returns an error, and
// requires that its node has counted the dropped packets.
func (i *intrusion) refused(t *testing.T, reason, text string, arguments ...string) {
	t.Helper()
	i.texts = append(i.texts, text)
	before := i.dropped(t, reason)
	arguments = append(append([]string{scene.Tool}, arguments...), "--text", text)
	if _, err := i.Exec(stage.Within(t, stage.Patience), i.intruder, arguments...); err != nil {
		t.Logf("the intruder is told: %v", err)
	}
	err := scene.Until(stage.Within(t, stage.Patience), reason+" to be counted", func(context.Context) (bool, string, error) {
		return i.dropped(t, reason) > before, "", nil
	})
	if err != nil {
		t.Errorf("%v: %v", arguments, err)
	}
}

// dropped is how many packets the intruder's node has dropped for a reason.
func (i *intrusion) dropped(t *testing.T, reason string) float64 {
	t.Helper()
	node := i.intruder.Spec.NodeName
	return i.Counters(t, node, stage.PacketsMetric)[reason] + i.Counters(t, node, stage.FilterMetric)[reason]
}

// texts that a pod's server has got so far.
func (i *intrusion) textsAt(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	seen, err := i.Seen(stage.Within(t, stage.Patience), pod)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, message := range seen {
		fmt.Fprintln(&all, message.Text)
	}
	return all.String()
}

// heardNothing requires that a pod's server gets the packets that are sent rightly, and that it got
// nothing of the intruder's before.
func (i *intrusion) heardNothing(t *testing.T, pod *corev1.Pod, control string) {
	t.Helper()
	var all string
	err := scene.Until(stage.Within(t, stage.Patience), control+" to come to "+pod.Name, func(context.Context) (bool, string, error) {
		all = i.textsAt(t, pod)
		return strings.Contains(all, control), "", nil
	})
	if err != nil {
		t.Errorf("a packet of the same make did not arrive: %v", err)
	}
	for _, text := range i.texts {
		if strings.Contains(all, text) {
			t.Errorf("pod %s got %s of the intruder's", pod.Name, text)
		}
	}
}

// TestHostNetworkPod_TunnelPackets_ReachNoVPC sends VXLAN packets into a tenant's VPC by every kind
// of socket, to the tunnel's port of both nodes. At the end a host sends the same under a node's
// address, as the network of the nodes must not allow.
func TestHostNetworkPod_TunnelPackets_ReachNoVPC(t *testing.T) {
	t.Parallel()
	e := start(t)
	i := e.intrude(t)
	there, here := e.Lab.Nodes()[0], e.Lab.Nodes()[1]
	vni := fmt.Sprint(e.recordOf(t, i.near).VNI)
	vxlan := func(node netip.Addr, from, to *corev1.Pod, by string) []string {
		return []string{
			"raw", "vxlan", "--by", by, "--node", node.String(), "--vni", vni,
			"--source", scene.IP(from, false).String(), "--target", scene.IP(to, false).String(),
		}
	}
	for _, by := range []string{"udp", "ip", "packet"} {
		for _, node := range []netip.Addr{there.IPv4, there.IPv6} {
			i.refused(t, "tunnel_socket", stage.Unique(by), vxlan(node, i.near, i.far, by)...)
		}
		if by == "packet" {
			continue // no packet to its own node passes a device
		}
		for _, node := range []netip.Addr{here.IPv4, here.IPv6} {
			i.refused(t, "tunnel_socket", stage.Unique(by), vxlan(node, i.far, i.near, by)...)
		}
	}
	host, _ := e.outsider(t, 213)
	for _, at := range []struct {
		receiver, sender netip.Addr
		from, to         *corev1.Pod
	}{{there.IPv4, here.IPv4, i.near, i.far}, {here.IPv4, there.IPv4, i.far, i.near}} {
		control := stage.Unique("control")
		e.background(t, host, append(vxlan(at.receiver, at.from, at.to, "packet"), "--from", at.sender.String(), "--text", control)...)()
		i.heardNothing(t, at.to, control)
	}
}

// TestHostNetworkPod_Shadow_Unreachable asks a tenant's pod on the same node under its shadow, and
// puts a frame on its device.
func TestHostNetworkPod_Shadow_Unreachable(t *testing.T) {
	e := start(t)
	i := e.intrude(t)
	record := e.recordOf(t, i.near)
	for _, shadow := range []netip.Addr{record.Shadow4, record.Shadow6} {
		for _, protocol := range []string{"tcp", "udp"} {
			i.refused(t, "shadow_socket", stage.Unique(protocol), "probe", "--timeout", "500ms", scene.Target(protocol, shadow))
		}
	}
	for _, v6 := range []bool{false, true} {
		i.refused(t, "shadow_socket", stage.Unique("frame"), "raw", "frame", "--device", record.HostIfName,
			"--target-mac", macOf(t, i.near).String(), "--source", scene.IP(i.far, v6).String(), "--target", scene.IP(i.near, v6).String())
	}
	control := stage.Unique("control")
	targets := scene.Targets([]string{"tcp", "udp"}, scene.IPs(i.near)...)
	results, err := e.AskWith(stage.Within(t, stage.Patience), i.far, answerTime, control, targets...)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if !result.OK {
			t.Errorf("a pod of the same tenant does not reach %s: %s", result.Target, result.Error)
		}
	}
	i.heardNothing(t, i.near, control)
}
