// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// TestNodePort_ClientPod_ReachesOnlyOwnVPC has two tenants with egress and the same addresses. All
// that is open to either at a node are its own Services.
func TestNodePort_ClientPod_ReachesOnlyOwnVPC(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	one, other := e.withEgress(t, "owns-a"), e.withEgress(t, "owns-b")
	address := scene.WithNIC(`{"ip": "10.10.1.30"}`)
	mine := e.publish(t, one.Pod("server", scene.OnNode(first), scene.WithLabel("app", "web"), address), corev1.ServiceExternalTrafficPolicyCluster)
	theirs := e.publish(t, other.Pod("server", scene.OnNode(second), scene.WithLabel("app", "web"), address), corev1.ServiceExternalTrafficPolicyLocal)
	near, far := one.Pod("near", scene.OnNode(first)), one.Pod("far", scene.OnNode(second))
	e.Run(t, mine.pod, theirs.pod, near, far)
	nodes := e.Lab.Nodes()
	var all, closed []string
	for _, node := range nodes {
		for _, ip := range []netip.Addr{node.IPv4, node.IPv6} {
			all = append(all, mine.targetsAt(ip)...)
			closed = append(closed, scene.TargetPort("tcp", ip, 10250), scene.TargetPort("tcp", ip, 22))
			closed = append(closed, theirs.targetsAt(ip)...)
		}
	}
	for _, from := range []*corev1.Pod{mine.pod, near, far} {
		t.Run("from "+from.Name, func(t *testing.T) {
			e.awaitAnswers(t, from, mine.pod, all...)
			e.expectSilence(t, from, closed...)
		})
	}
	t.Run("not where its VPC is denied the node", func(t *testing.T) {
		e.deny(t, one, nodes[0].IPv4.String()+"/32", nodes[0].IPv6.String()+"/128")
		e.awaitReach(t, near, false, mine.targetsAt(nodes[0].IPv4)[0])
		e.expectSilence(t, near, mine.targetsAt(nodes[0].IPv6)...)
		e.awaitAnswers(t, near, mine.pod, mine.targetsAt(nodes[1].IPv4)...)
	})
}

// awaitAnswers waits until one pod answers at all targets.
func (e *env) awaitAnswers(t *testing.T, from, server *corev1.Pod, targets ...string) {
	t.Helper()
	err := scene.Until(within(t, patience), "answers", func(ctx context.Context) (bool, string, error) {
		results, err := e.Ask(ctx, from, silenceTime, targets...)
		wrong := slices.DeleteFunc(results, func(r report.Probe) bool {
			return r.OK && r.Name == scene.ServerName(server.Namespace, server.Name)
		})
		return err == nil && len(wrong) == 0, fmt.Sprintf("%+v", wrong), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLocalService_ClientNode_SeenByOwnAddress has a node with a backend and one without. Each asks
// at an address of its own, as load balancers on nodes do.
func TestLocalService_ClientNode_SeenByOwnAddress(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, _ := e.Nodes()
	tenant := e.withEgress(t, "asked")
	namespace := e.plainNamespace(t)
	list := []published{
		e.publish(t, tenant.Pod("server", scene.OnNode(first), scene.WithLabel("app", "web")), corev1.ServiceExternalTrafficPolicyLocal),
		e.publish(t, scene.Pod(namespace, "server", scene.OnNode(first), scene.WithLabel("app", "web")), corev1.ServiceExternalTrafficPolicyLocal),
	}
	e.Run(t, list[0].pod, list[1].pod)
	for _, p := range list {
		for _, node := range e.Lab.Nodes() {
			for _, ip := range []netip.Addr{node.IPv4, node.IPv6} {
				e.awaitOnNode(t, node.Name, p.pod, ip, p.targetsAt(ip)...)
			}
		}
	}
}

// awaitOnNode waits until a pod answers all targets that a node asks, and sees it under
// an address.
func (e *env) awaitOnNode(t *testing.T, node string, server *corev1.Pod, seen netip.Addr, targets ...string) {
	t.Helper()
	err := scene.Until(within(t, patience), "the pod to see the node", func(context.Context) (bool, string, error) {
		out := e.OnNode(t, node, append([]string{"testtool", "probe", "--timeout", silenceTime.String()}, targets...)...)
		results, err := scene.ParseLines[report.Probe](out)
		wrong := slices.DeleteFunc(results, func(r report.Probe) bool {
			return r.OK && r.Name == scene.ServerName(server.Namespace, server.Name) && r.Peer == seen.String()
		})
		return err == nil && len(wrong) == 0, fmt.Sprintf("%+v", wrong), err
	})
	if err != nil {
		t.Errorf("from %s: %v", node, err)
	}
}

// expectNodePortsOfHosts asks from outside, from pods and from nodes at ports that lead to
// pods on nodes' own networks: agents is one per node.
func (e *env) expectNodePortsOfHosts(t *testing.T, agents, askers []*corev1.Pod) {
	t.Helper()
	host := e.outsideHost(t, "edges", 215)
	far := e.publishAs(t, "far", map[string]string{"agent": "two"}, agents[1], corev1.ServiceExternalTrafficPolicyCluster)
	here := e.publishAs(t, "here", map[string]string{"app": "agent"}, agents[0], corev1.ServiceExternalTrafficPolicyLocal)
	for i, node := range e.Lab.Nodes() {
		e.awaitFrom(t, host, agents[1], nil, far.targetsAt(node.IPv4)...)
		e.awaitFrom(t, host, agents[i], host.IPs, here.targetsAt(node.IPv4)...)
		both := slices.Concat(far.targetsAt(node.IPv4), far.targetsAt(node.IPv6))
		for _, from := range askers {
			e.awaitAnswers(t, from, agents[1], both...)
		}
		e.nodeReaches(t, node.Name, append(both, here.targetsAt(node.IPv4)...)...)
	}
}

// publishAs makes a NodePort Service of a name, with a selector of its own.
func (e *env) publishAs(t *testing.T, name string, selector map[string]string, pod *corev1.Pod, policy corev1.ServiceExternalTrafficPolicy) published {
	t.Helper()
	service := serviceOf(pod.Namespace, name, "")
	service.Spec.Selector, service.Spec.Type, service.Spec.ExternalTrafficPolicy = selector, corev1.ServiceTypeNodePort, policy
	e.Make(t, service)
	return published{service, pod}
}

// awaitFrom waits until a pod answers all targets that a host outside asks; where some
// are given, it sees one of these addresses.
func (e *env) awaitFrom(t *testing.T, host *cluster.Host, server *corev1.Pod, seen []netip.Addr, targets ...string) {
	t.Helper()
	err := scene.Until(within(t, patience), "answers", func(context.Context) (bool, string, error) {
		wrong := slices.DeleteFunc(e.knock(t, host, targets...), func(r report.Probe) bool {
			peer, err := netip.ParseAddr(r.Peer)
			return r.OK && r.Name == scene.ServerName(server.Namespace, server.Name) && (seen == nil || err == nil && slices.Contains(seen, peer))
		})
		return len(wrong) == 0, fmt.Sprintf("%+v", wrong), nil
	})
	if err != nil {
		t.Errorf("%s: %v", server.Name, err)
	}
}
