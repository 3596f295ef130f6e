// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// balancedIPs are the addresses that load balancers of several tenants have at once.
var balancedIPs = []netip.Addr{netip.MustParseAddr("10.10.9.40"), netip.MustParseAddr("fd10:10:0:9::40")}

// balanced is a shop with a load balancer at those addresses.
func (e *env) balanced(t *testing.T, name string) (*shop, *corev1.Service) {
	t.Helper()
	s := e.shop(t, name)
	subnet := scene.Subnet(s.VPC.Name, "lb", "10.10.9.0/24", "fd10:10:0:9::/64")
	subnet.Spec.Use = v1alpha1.SubnetForServices
	service := serviceOf(s.Namespace.Name, "balanced", "web")
	service.Annotations = map[string]string{v1alpha1.LoadBalancerIPsAnnotation: fmt.Sprintf("%s,%s", balancedIPs[0], balancedIPs[1])}
	service.Spec.Type, service.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To(v1alpha1.LoadBalancerClass)
	service.Spec.AllocateLoadBalancerNodePorts = ptr.To(false)
	e.Make(t, subnet, service)
	e.awaitIngress(t, service, len(balancedIPs))
	for _, from := range []*corev1.Pod{s.near, s.far} {
		for _, ip := range balancedIPs {
			e.awaitReach(t, from, true, scene.Target("tcp", ip))
		}
	}
	return s, service
}

// awaitIngress waits until the status of a Service shows so many addresses.
func (e *env) awaitIngress(t *testing.T, service *corev1.Service, count int) {
	t.Helper()
	err := scene.Until(within(t, patience), "addresses of Service "+service.Name, func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(service), service)
		ingress := service.Status.LoadBalancer.Ingress
		return err == nil && len(ingress) == count, fmt.Sprintf("it shows %v", ingress), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkBalanced asks the load balancer from a pod, UDP from one and the same port,
// and requires that the tenant's own server answers. It may run beside others.
func (e *env) checkBalanced(ctx context.Context, t *testing.T, s *shop, from *corev1.Pod) {
	command := append([]string{scene.Tool, "probe", "--timeout", answerTime.String(), "--source-port", "40000"}, scene.Targets(scene.Protocols(), balancedIPs...)...)
	out, err := e.Exec(ctx, from, command...)
	if err != nil {
		t.Error(err)
		return
	}
	results, err := scene.ParseLines[report.Probe](out)
	if err != nil {
		t.Error(err)
	}
	for _, result := range results {
		if problem := checkAnswer(result, scene.ServerName(s.Namespace.Name, s.server.Name), scene.IPs(from)); problem != "" {
			t.Errorf("%s/%s: %s", from.Namespace, from.Name, problem)
		}
	}
}

// Two tenants have the same ranges, pods with the same addresses, and load balancers
// with the same address, and their pods ask at the same moment from the same ports.
func TestLoadBalancersOfTwoTenantsWithOneAddressNeverCross(t *testing.T) {
	t.Parallel()
	e := start(t)
	one, first := e.balanced(t, "lb-a")
	other, _ := e.balanced(t, "lb-b")
	ctx := within(t, patience)
	for range 3 {
		var asking sync.WaitGroup
		for _, s := range []*shop{one, other} {
			for _, from := range []*corev1.Pod{s.near, s.far} {
				asking.Go(func() { e.checkBalanced(ctx, t, s, from) })
			}
		}
		asking.Wait()
	}
	if err := e.Delete(ctx, first); err != nil {
		t.Fatal(err)
	}
	e.awaitReach(t, one.far, false, scene.Target("tcp", balancedIPs[0]))
	e.expectSilence(t, one.near, scene.Targets([]string{"tcp", "udp"}, balancedIPs...)...)
	e.checkBalanced(ctx, t, other, other.far)
}
