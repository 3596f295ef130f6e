// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// leaveToProxy puts the label on a Service that leaves it to another proxy, or takes
// it away.
func (e *env) leaveToProxy(t *testing.T, service *corev1.Service, proxy string) {
	t.Helper()
	patch := `{"metadata":{"labels":{"service.kubernetes.io/service-proxy-name":` + proxy + `}}}`
	if err := e.Client.Patch(within(t, patience), service, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// TestService_OtherProxyLabel_LeftAlone has a Service with all that Alioth serves, whose label
// comes and goes.
func TestService_OtherProxyLabel_LeftAlone(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("proxied"))
	server, asker := tenant.Pod("server", scene.OnNode(first), scene.WithLabel("app", "web")), tenant.Pod("asker", scene.OnNode(second))
	service := serviceOf(tenant.Namespace.Name, "web", "web")
	balance(service)
	service.Spec.AllocateLoadBalancerNodePorts = nil
	e.Make(t, balancerSubnet(tenant), service)
	e.Run(t, server, asker)
	host := e.outsideHost(t, "proxied", 213)
	atNodes := func() (targets []string) {
		for _, node := range e.Lab.Nodes() {
			targets = append(targets, published{service: service}.targetsAt(node.IPv4)...)
		}
		return targets
	}
	inside := slices.Concat(scene.Targets([]string{"tcp", "udp"}, netip.MustParseAddr(service.Spec.ClusterIP)), scene.Targets([]string{"tcp"}, balancedIPs...))
	for _, proxy := range []string{"null", `"another"`, "null", `""`} {
		e.leaveToProxy(t, service, proxy)
		if proxy == "null" {
			e.awaitIngress(t, service, len(balancedIPs))
			e.awaitReach(t, asker, true, inside[0])
			e.expectFromOutside(t, host, published{service, server}, atNodes()...)
			continue
		}
		e.awaitIngress(t, service, 0)
		e.awaitReach(t, asker, false, inside[0])
		e.expectSilence(t, asker, inside...)
		e.awaitUnanswered(t, host, atNodes()...)
	}
}
