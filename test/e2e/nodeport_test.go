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

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// published is a Service with node ports and the one pod behind it.
type published struct {
	service *corev1.Service
	pod     *corev1.Pod
}

// targetsAt returns the ports of the Service at an address of a node.
func (p published) targetsAt(ip netip.Addr) []string {
	var targets []string
	for _, port := range p.service.Spec.Ports {
		target := scene.TargetPort(port.Name, ip, uint16(port.NodePort))
		if port.Name == "http" {
			target += "/echo"
		}
		targets = append(targets, target)
	}
	return targets
}

// publish makes a NodePort Service of a namespace in front of a pod.
func (e *env) publish(t *testing.T, pod *corev1.Pod, policy corev1.ServiceExternalTrafficPolicy) published {
	t.Helper()
	service := serviceOf(pod.Namespace, "web", "web")
	service.Spec.Type, service.Spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, policy
	e.Make(t, service)
	return published{service, pod}
}

// TestNodePort_EachVPC_LeadsToBackend has two tenants with the same addresses, each with a backend
// on another node, and the default VPC.
func TestNodePort_EachVPC_LeadsToBackend(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	everywhere := corev1.ServiceExternalTrafficPolicyCluster
	one, other := e.Tenant(t, stage.Overlapping("ports-a")), e.Tenant(t, stage.Overlapping("ports-b"))
	namespace := e.plainNamespace(t)
	address := scene.WithNIC(`{"ip": "10.10.1.30"}`)
	list := []published{
		e.publish(t, one.Pod("server", scene.OnNode(first), scene.WithLabel("app", "web"), address), everywhere),
		e.publish(t, other.Pod("server", scene.OnNode(second), scene.WithLabel("app", "web"), address), corev1.ServiceExternalTrafficPolicyLocal),
		e.publish(t, scene.Pod(namespace, "server", scene.OnNode(first), scene.WithLabel("app", "web")), everywhere),
	}
	foreign := other.Pod("foreign", scene.OnNode(second))
	e.Run(t, list[0].pod, list[1].pod, list[2].pod, foreign)
	host := e.outsideHost(t, "knocks", 208)
	nodes := e.Lab.Nodes()
	for _, p := range list {
		at := nodes
		if p.service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			at = nodes[1:] // the nodes with a backend
		}
		for _, node := range at {
			t.Run(fmt.Sprintf("%s by %s", p.pod.Namespace, node.Name), func(t *testing.T) {
				e.expectFromOutside(t, host, p, p.targetsAt(node.IPv4)...)
			})
		}
	}
	t.Run("a Local one is answered nowhere else", func(t *testing.T) {
		results := e.knock(t, host, list[1].targetsAt(nodes[0].IPv4)...)
		if slices.ContainsFunc(results, func(r report.Probe) bool { return r.OK }) {
			t.Errorf("%+v", results)
		}
	})
	t.Run("not from a tenant's pod", func(t *testing.T) { e.expectSilence(t, foreign, list[0].targetsAt(nodes[0].IPv4)...) })
}

func (e *env) knock(t *testing.T, host *cluster.Host, targets ...string) []report.Probe {
	t.Helper()
	results, err := scene.ParseLines[report.Probe](e.onHost(t, host, append([]string{"probe", "--timeout", silenceTime.String()}, targets...)...))
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// isShadow reports whether an address is a source address of nodes that speak to pods.
func isShadow(ip netip.Addr) bool {
	return netip.MustParsePrefix(v1alpha1.ShadowCIDR4).Contains(ip) || netip.MustParsePrefix(v1alpha1.ShadowCIDR6).Contains(ip)
}

// expectFromOutside waits until all targets are answered by the pod, which sees the host
// itself if its Service preserves clients' addresses, and otherwise its node.
func (e *env) expectFromOutside(t *testing.T, host *cluster.Host, p published, targets ...string) {
	t.Helper()
	local := p.service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	var wrong []report.Probe
	err := scene.Until(within(t, patience), "the ports to be answered", func(context.Context) (bool, string, error) {
		wrong = nil
		results := e.knock(t, host, targets...)
		for _, r := range results {
			peer, err := netip.ParseAddr(r.Peer)
			seen := slices.Contains(host.IPs, peer)
			if !local {
				seen = err == nil && isShadow(peer)
			}
			if !r.OK || !seen || r.Name != scene.ServerName(p.pod.Namespace, p.pod.Name) {
				wrong = append(wrong, r)
			}
		}
		return len(wrong) == 0 && len(results) == len(targets), fmt.Sprintf("%+v", wrong), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestNodePort_Affinity_KeptUntilTimeout has a backend or two on every node, behind a Service whose
// affinity lasts longer than any test, and one whose affinity lasts as short as may be.
func TestNodePort_Affinity_KeptUntilTimeout(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("keeps"))
	var pods []*corev1.Pod
	for i, node := range []string{first, second, first, second} {
		pods = append(pods, tenant.Pod(fmt.Sprintf("server-%d", i), scene.OnNode(node), scene.WithLabel("app", "web")))
	}
	keeping := func(name string, seconds int32) string {
		service := serviceOf(tenant.Namespace.Name, name, "web")
		service.Spec.Type, service.Spec.SessionAffinity = corev1.ServiceTypeNodePort, corev1.ServiceAffinityClientIP
		service.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
		e.Make(t, service)
		return published{service: service}.targetsAt(e.Lab.Nodes()[0].IPv4)[0]
	}
	long, brief := keeping("long", 86400), keeping("brief", 1)
	e.Run(t, pods...)
	host := e.outsideHost(t, "keeps", 212)
	ask := func(target string, count int) []report.Probe {
		results, err := scene.ParseLines[report.Probe](e.onHost(t, host, "probe", "--timeout", answerTime.String(), "--count", fmt.Sprint(count), target))
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	err := scene.Until(within(t, patience), "both to be served", func(context.Context) (bool, string, error) {
		results := e.knock(t, host, long, brief)
		return results[0].OK && results[1].OK, fmt.Sprintf("%+v", results), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kept := ask(long, 20)
	for _, r := range kept {
		if !r.OK || r.Name != kept[0].Name {
			t.Errorf("answered by %+v, and by %+v", r, kept[0])
		}
	}
	err = awaitAnotherName(within(t, patience), func() (string, error) {
		r := ask(brief, 1)[0]
		if !r.OK {
			return "", fmt.Errorf("%+v", r)
		}
		return r.Name, nil
	})
	if err != nil {
		t.Error(err)
	}
}
