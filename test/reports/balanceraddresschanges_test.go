// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

var _ = kept(Report{
	Name: "balancer-address-changes", Source: "metallb/metallb#471", Kind: balancers,
	Input: "A load balancer asks for another address than it has.",
	Want:  "The new address answers, the old one does not, and the status shows the new one alone.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, balancing("10.10.9.51"))
		l.lead(t, service, l.one)
		l.awaitBalancer(t, service, "10.10.9.51", name(l.one))
		l.change(t, service, func() { balancing("10.10.9.52")(service) })
		l.awaitBalancer(t, service, "10.10.9.52", name(l.one))
		l.awaitBalancer(t, nil, "10.10.9.51", nothing)
	},
})

var _ = kept(Report{
	Name: "balancer-no-more", Source: "metallb/metallb#190", Kind: balancers,
	Input: "A load balancer becomes a Service of type ClusterIP.",
	Want:  "Its address does not answer any more, and the status shows none.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, balancing("10.10.9.53"))
		l.lead(t, service, l.one)
		l.awaitBalancer(t, service, "10.10.9.53", name(l.one))
		l.change(t, service, func() {
			service.Spec.Type, service.Spec.LoadBalancerClass, service.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeClusterIP, nil, nil
			service.Spec.ExternalTrafficPolicy = ""
		})
		l.awaitIngress(t, service)
		l.awaitBalancer(t, nil, "10.10.9.53", nothing)
		question{from: l.in(l.asker), targets: at(service, "tcp")}.expect(t, 1, name(l.one))
	},
})

var _ = kept(Report{
	Name: "balancer-address-is-free-again", Source: "metallb/metallb#321", Kind: balancers,
	Input: "Two load balancers ask for one address. The one that has it is deleted.",
	Want:  "The other one gets the address.",
	Run: func(t *testing.T, l *lab) {
		holder := l.service(t, balancing("10.10.9.54"))
		l.awaitIngress(t, holder, "10.10.9.54")
		waiting := l.service(t, balancing("10.10.9.54"))
		l.lead(t, waiting, l.two)
		if err := l.Delete(patience(t), holder); err != nil {
			t.Fatal(err)
		}
		l.awaitBalancer(t, waiting, "10.10.9.54", name(l.two))
	},
})

// balancing makes a Service a load balancer in its VPC, over IPv4 alone, that asks for an
// address.
func balancing(ip string) func(*corev1.Service) {
	return func(service *corev1.Service) {
		service.Annotations = map[string]string{v1alpha1.LoadBalancerIPsAnnotation: ip}
		service.Spec.Type, service.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To(v1alpha1.LoadBalancerClass)
		service.Spec.AllocateLoadBalancerNodePorts = ptr.To(false)
		service.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
	}
}

// awaitBalancer waits until a Service, unless it is nil, shows an address alone, and until
// all clients get the answer there.
func (l *lab) awaitBalancer(t *testing.T, service *corev1.Service, ip, want string) {
	t.Helper()
	if service != nil {
		l.awaitIngress(t, service, ip)
	}
	for _, from := range l.clients() {
		question{from: l.in(from), targets: scene.Targets([]string{"tcp", "udp"}, netip.MustParseAddr(ip))}.await(t, want)
	}
}
