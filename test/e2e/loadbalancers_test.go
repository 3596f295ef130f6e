// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// balancedIPs are the addresses that load balancers of several tenants have at once.
var balancedIPs = []netip.Addr{netip.MustParseAddr("10.10.9.40"), netip.MustParseAddr("fd10:10:0:9::40")}

// balancerSubnet returns the part of a tenant's VPC where those addresses are.
func balancerSubnet(tenant *scene.Tenant) *v1alpha1.Subnet {
	subnet := scene.Subnet(tenant.VPC.Name, "lb", "10.10.9.0/24", "fd10:10:0:9::/64")
	subnet.Spec.Use = v1alpha1.SubnetForServices
	return subnet
}

// balance gives a Service that is to be made a load balancer at those addresses.
func balance(service *corev1.Service) {
	service.Annotations = map[string]string{v1alpha1.LoadBalancerIPsAnnotation: fmt.Sprintf("%s,%s", balancedIPs[0], balancedIPs[1])}
	service.Spec.Type, service.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To(v1alpha1.LoadBalancerClass)
	service.Spec.AllocateLoadBalancerNodePorts = ptr.To(false)
}

// balanced returns a shop with a load balancer at those addresses.
func (e *env) balanced(t *testing.T, name string) (*shop, *corev1.Service) {
	t.Helper()
	s := e.shop(t, name)
	service := serviceOf(s.Namespace.Name, "balanced", "web")
	balance(service)
	e.Make(t, balancerSubnet(s.Tenant), service)
	e.awaitIngress(t, service, len(balancedIPs))
	for _, from := range []*corev1.Pod{s.near, s.far} {
		for _, ip := range balancedIPs {
			e.awaitReach(t, from, true, scene.Target("tcp", ip))
		}
	}
	return s, service
}

// awaitIngress waits until the status of a Service shows count addresses.
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

// socketPort is the source port of sockets. framePort is the source port of frames that pods send
// past their sockets. Services are translated at the socket for the first, in packets for the
// second. Both are below the ports that the kernel gives to sockets by itself: a connection that
// had such a port before keeps it for a minute after its end.
const socketPort, framePort = 20000, 20001

// checkBalanced asks the load balancer from a pod, all from one and the same port,
// and requires that the tenant's own server answers. It may run beside others.
func (e *env) checkBalanced(ctx context.Context, t *testing.T, s *shop, from *corev1.Pod) {
	command := append([]string{scene.Tool, "probe", "--timeout", answerTime.String(), "--source-port", strconv.Itoa(socketPort)},
		scene.Targets(scene.Protocols(), balancedIPs...)...)
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
		if problem := stage.CheckAnswer(result, scene.ServerName(s.Namespace.Name, s.server.Name), scene.IPs(from)); problem != "" {
			t.Errorf("%s/%s: %s", from.Namespace, from.Name, problem)
		}
		if !strings.HasPrefix(result.Target, "icmp") && result.PeerPort != socketPort {
			t.Errorf("%s/%s: %s saw the port %d", from.Namespace, from.Name, result.Target, result.PeerPort)
		}
	}
}

// sendFrames sends datagrams to the load balancer past the pod's sockets. It may run
// beside others.
func (e *env) sendFrames(ctx context.Context, t *testing.T, from *corev1.Pod, mac, text string) {
	for _, vip := range balancedIPs {
		_, err := e.Exec(ctx, from, scene.Tool, "raw", "frame", "--source", scene.IP(from, vip.Is6()).String(), "--source-mac", mac,
			"--source-port", strconv.Itoa(framePort), "--target", vip.String(), "--text", text+family(vip.Is6()), "--count", "5")
		if err != nil {
			t.Error(err)
		}
	}
}

// checkFrames lets pods of both tenants send frames at the same time, which differ in
// their text only, and requires that each tenant's server gets its own.
func (e *env) checkFrames(ctx context.Context, t *testing.T, one, other *shop) {
	t.Helper()
	texts := map[*shop]string{one: unique("frame"), other: unique("frame")}
	var sending sync.WaitGroup
	for s, text := range texts {
		for _, from := range []*corev1.Pod{s.near, s.far} {
			at := mac(t, from)
			sending.Go(func() { e.sendFrames(ctx, t, from, at, text+from.Name) })
		}
	}
	sending.Wait()
	for s, text := range texts {
		for _, v6 := range []bool{false, true} {
			e.waitSaw(t, s.server, text+s.near.Name+family(v6))
			e.waitSaw(t, s.server, text+s.far.Name+family(v6))
		}
	}
	e.expectNeverSaw(t, one.server, texts[other])
	e.expectNeverSaw(t, other.server, texts[one])
}

// Two tenants have the same ranges, pods with the same addresses, and load balancers with the same
// address, and their pods ask at the same moment from the same ports.
func TestLoadBalancers_TwoTenantsSameAddress_NeverCross(t *testing.T) {
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
	e.checkFrames(ctx, t, one, other)
	if err := e.Delete(ctx, first); err != nil {
		t.Fatal(err)
	}
	e.awaitReach(t, one.far, false, scene.Target("tcp", balancedIPs[0]))
	e.expectSilence(t, one.near, scene.Targets([]string{"tcp", "udp"}, balancedIPs...)...)
	e.checkBalanced(ctx, t, other, other.far)
}
