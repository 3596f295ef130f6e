// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// Ports that a node listens on: every one, and the first.
const (
	kubeletPort   = 10250
	apiServerPort = 6443
)

// shadows lists the shadow addresses of all pods on a node: the node routes
// each of them to the pod's interface. There is at least one.
func (e *env) shadows(t *testing.T, node string) []netip.Addr {
	t.Helper()
	var shadows []netip.Addr
	ranges := []netip.Prefix{netip.MustParsePrefix(v1alpha1.ShadowCIDR4), netip.MustParsePrefix(v1alpha1.ShadowCIDR6)}
	for i, familyFlag := range []string{"-4", "-6"} {
		var routes []struct{ Dst, Dev string }
		if err := json.Unmarshal([]byte(e.OnNode(t, node, "ip", familyFlag, "-json", "route", "show")), &routes); err != nil {
			t.Fatalf("read the routes of %s: %v", node, err)
		}
		for _, route := range routes {
			ip, err := netip.ParseAddr(route.Dst)
			if err == nil && ranges[i].Contains(ip) && strings.HasPrefix(route.Dev, "alv") {
				shadows = append(shadows, ip)
			}
		}
	}
	if len(shadows) == 0 {
		t.Fatalf("node %s has no shadow address", node)
	}
	return shadows
}

// nodeTargets are ways to reach a node at one of its addresses: its ping, its
// open ports, and a closed one, which would be refused.
func nodeTargets(ip netip.Addr) []string {
	return []string{
		scene.Target("icmp", ip), scene.Target("udp", ip),
		scene.TargetPort("connect", ip, kubeletPort), scene.TargetPort("connect", ip, apiServerPort),
	}
}

// nodeShadows returns the source addresses of a node when it speaks to shadows: the first of each
// range.
func nodeShadows() []netip.Addr {
	return []netip.Addr{
		netip.MustParsePrefix(v1alpha1.ShadowCIDR4).Addr().Next(), netip.MustParsePrefix(v1alpha1.ShadowCIDR6).Addr().Next(),
	}
}

// forbidden returns the targets that a tenant's pod must not reach, by their kind.
func (e *env) forbidden(t *testing.T, defaultPods []*corev1.Pod, service *corev1.Service) map[string][]string {
	t.Helper()
	targets := map[string][]string{}
	for i, node := range e.Lab.Nodes() {
		where := []string{"the first node", "the second node"}[min(i, 1)]
		targets["shadow addresses on "+where] = scene.Targets(scene.Protocols(), e.shadows(t, node.Name)...)
		for _, ip := range []netip.Addr{node.IPv4, node.IPv6} {
			targets[where] = append(targets[where], nodeTargets(ip)...)
		}
	}
	for _, ip := range nodeShadows() {
		targets["the node's own shadow address"] = append(targets["the node's own shadow address"], nodeTargets(ip)...)
	}
	for _, pod := range defaultPods {
		targets["pods of the default VPC"] = append(targets["pods of the default VPC"], scene.Targets(scene.Protocols(), scene.IPs(pod)...)...)
	}
	for _, ip := range service.Spec.ClusterIPs {
		targets["a service of the default VPC that is not shared"] = append(targets["a service of the default VPC that is not shared"],
			scene.Targets(scene.Protocols(), netip.MustParseAddr(ip))...)
	}
	return targets
}

// unsharedService returns an ordinary Service in front of default-VPC pods.
func unsharedService(namespace string) *corev1.Service {
	return scene.Service(namespace, "unshared", "unshared")
}

func TestTenant_NodesAndShadows_Unreachable(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	namespace := e.plainNamespace(t)
	service := unsharedService(namespace)
	e.Make(t, service)
	defaults := []*corev1.Pod{
		scene.Pod(namespace, "one", scene.OnNode(first), scene.WithLabel("app", "unshared")),
		scene.Pod(namespace, "two", scene.OnNode(second), scene.WithLabel("app", "unshared")),
	}
	e.Run(t, defaults...)
	bystander := e.Tenant(t, stage.Overlapping("bystander"))
	bystanders := []*corev1.Pod{bystander.Pod("one", scene.OnNode(first)), bystander.Pod("two", scene.OnNode(second))}
	e.Run(t, bystanders...)

	for _, egress := range []v1alpha1.Egress{v1alpha1.EgressNone, v1alpha1.EgressMasquerade} {
		spec := stage.Overlapping("tenant")
		spec.Egress = egress
		tenant := e.Tenant(t, spec)
		pod := tenant.Pod("asker", scene.OnNode(first))
		e.Run(t, pod)
		targets := e.forbidden(t, defaults, service)
		for _, name := range sortedKeys(targets) {
			t.Run("a pod of a VPC with egress "+string(egress)+" does not reach "+name, func(t *testing.T) {
				if len(targets[name]) == 0 {
					t.Fatalf("there is no %s to ask", name)
				}
				e.expectSilence(t, pod, targets[name]...)
			})
		}
		for _, other := range append(append([]*corev1.Pod{}, defaults...), bystanders...) {
			e.expectNeverSaw(t, other, marker(pod))
		}
	}
	t.Run("a pod of the default VPC reaches the nodes' ports, so there was something to reach", func(t *testing.T) {
		node := e.Lab.Nodes()[0]
		targets := []string{scene.TargetPort("connect", node.IPv4, kubeletPort), scene.TargetPort("connect", node.IPv4, apiServerPort)}
		results, err := e.Ask(within(t, patience), defaults[1], answerTime, targets...)
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range results {
			if !result.OK {
				t.Errorf("%s: %s", result.Target, result.Error)
			}
		}
	})
}

func TestEgress_EachMode_FollowsVPC(t *testing.T) {
	t.Parallel()
	e := start(t)
	host := e.outsideHost(t, "internet", 202)
	address := e.serveOn(t, host, "internet", 202)
	for egress, wanted := range map[v1alpha1.Egress]bool{v1alpha1.EgressNone: false, v1alpha1.EgressMasquerade: true} {
		t.Run("egress "+string(egress), func(t *testing.T) {
			spec := stage.Overlapping("tenant")
			spec.Egress = egress
			tenant := e.Tenant(t, spec)
			for _, node := range e.Lab.Nodes() {
				pod := tenant.Pod("asker-"+node.Name, scene.OnNode(node.Name))
				e.Run(t, pod)
				targets := scene.Targets(scene.Protocols(), address)
				if !wanted {
					e.expectSilence(t, pod, targets...)
					continue
				}
				results, err := e.Ask(within(t, patience), pod, answerTime, targets...)
				if err != nil {
					t.Fatal(err)
				}
				for _, result := range results {
					if !result.OK {
						t.Errorf("%s: no answer: %s", result.Target, result.Error)
					} else if result.Peer != "" && result.Peer != node.IPv4.String() {
						t.Errorf("%s saw the pod as %s, want the node's address %s", result.Target, result.Peer, node.IPv4)
					}
				}
			}
		})
	}
}

func TestShadowRange_RoutedThroughNode_ReachesNothing(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("tenant"))
	plain := e.plainNamespace(t)
	pods := []*corev1.Pod{
		tenant.Pod("one", scene.OnNode(first), scene.WithReadiness(httpProbe("/healthz"))),
		tenant.Pod("two", scene.OnNode(second)), scene.Pod(plain, "default", scene.OnNode(first)),
	}
	e.Run(t, pods...)
	host := e.outsideHost(t, "router", 203)
	node := e.Lab.Nodes()[0]
	defaultRange := netip.PrefixFrom(scene.IP(pods[2], false), 16).Masked()
	for _, prefix := range []string{v1alpha1.ShadowCIDR4, defaultRange.String()} {
		if _, err := host.Exec(within(t, patience), "ip", "route", "add", prefix, "via", node.IPv4.String()); err != nil {
			t.Fatal(err)
		}
	}
	targets := map[string][]netip.Addr{"shadow addresses": nil, "addresses of the default VPC": {scene.IP(pods[2], false)}}
	for _, shadow := range e.shadows(t, first) {
		if shadow.Is4() {
			targets["shadow addresses"] = append(targets["shadow addresses"], shadow)
		}
	}
	targets["shadow addresses"] = append(targets["shadow addresses"], nodeShadows()[0])
	for name, ips := range targets {
		t.Run(name, func(t *testing.T) {
			if len(ips) < 1 {
				t.Fatal("there is nothing to ask")
			}
			arguments := append([]string{"probe", "--timeout", silenceTime.String(), "--text", "from-the-router"}, scene.Targets(scene.Protocols(), ips...)...)
			results, err := scene.ParseLines[report.Probe](e.onHost(t, host, arguments...))
			if err != nil {
				t.Fatal(err)
			}
			if wrong := answered(results); len(wrong) > 0 {
				t.Errorf("%d targets answered and must not:\n%s", len(wrong), inOrder(wrong))
			}
			for _, pod := range pods {
				e.expectNeverSaw(t, pod, "from-the-router")
			}
		})
	}
}
