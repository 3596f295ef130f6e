// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

func TestTenant_IPv6Only_Served(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	// A subnet of its own: the kubelet can't tell two probed pods of a node apart by one IP.
	spec := scene.TenantSpec{
		Name: "six", CIDRs: []string{"fd10:10::/48"}, Egress: v1alpha1.EgressMasquerade,
		Subnets: []scene.Range{{Name: "net1", CIDRs: []string{"fd10:10:0:6::/64"}}},
	}
	tenant, other := e.Tenant(t, spec), e.Tenant(t, spec)
	ips := map[string]string{"one": "fd10:10:0:6::11", "two": "fd10:10:0:6::12", "three": "fd10:10:0:6::13"}
	var pods, others []*corev1.Pod
	for name, node := range map[string]string{"one": first, "two": first, "three": second} {
		pods = append(pods, tenant.Pod(name, scene.OnNode(node), scene.WithReadiness(httpProbe("/healthz")), scene.WithNIC(`{"ip": "`+ips[name]+`"}`)))
	}
	others = append(others, other.Pod("one", scene.OnNode(second), scene.WithReadiness(httpProbe("/healthz")), scene.WithNIC(`{"ip": "fd10:10:0:6::99"}`)))
	e.Run(t, append(append([]*corev1.Pod{}, pods...), others...)...)

	t.Run("pods have one address, and reach each other by it", func(t *testing.T) {
		for _, pod := range pods {
			if ips := scene.IPs(pod); len(ips) != 1 || !ips[0].Is6() {
				t.Errorf("%s has the addresses %v", pod.Name, ips)
			}
			e.expectAnswers(t, pod, wantOthers(pod, pods))
		}
	})
	t.Run("another tenant's are not reached", func(t *testing.T) {
		e.expectSilence(t, pods[0], scene.Targets(scene.Protocols(), scene.IPs(others[0])...)...)
	})
	t.Run("readiness follows the server", func(t *testing.T) {
		e.turnHealth(t, pods[0], false)
		e.waitReadiness(t, pods[0], corev1.ConditionFalse)
		e.turnHealth(t, pods[0], true)
		e.waitReadiness(t, pods[0], corev1.ConditionTrue)
	})
	t.Run("cluster DNS answers", func(t *testing.T) {
		for _, pod := range pods {
			if out := e.InPod(t, pod, scene.Tool, "resolve", "kubernetes.default.svc.cluster.local"); !strings.Contains(out, "10.96.0.1") {
				t.Errorf("in %s: %q", pod.Name, out)
			}
		}
	})
	t.Run("the outside is reached", func(t *testing.T) {
		_, v6 := e.Lab.Topology().Networks()
		address := v6.Addr().As16()
		address[15] = 0xcb
		outside := netip.AddrFrom16(address)
		e.serveAt(t, e.outsideHostAt(t, "internet6", outside), "internet6", outside)
		for _, pod := range pods {
			results, err := e.Ask(within(t, patience), pod, answerTime, scene.Targets(scene.Protocols(), outside)...)
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range results {
				if !result.OK {
					t.Errorf("from %s, %s: %s", pod.Name, result.Target, result.Error)
				}
			}
		}
	})
}
