// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "source-ranges-at-external-ips", Source: "cilium/cilium#44747", Kind: balancers,
	Input: "A load balancer has loadBalancerSourceRanges and an external IP. A host outside of the ranges asks the external IP.",
	Want:  "The host gets no answer. It does as soon as the ranges contain it.",
	Run: func(t *testing.T, l *lab) {
		ip, _ := l.OnUnderlay(222)
		service := l.serviceAtExternalIP(t, ip)
		l.lead(t, service, l.one)
		for _, node := range l.Lab.Nodes() {
			if out, err := l.host.Exec(patience(t), "ip", "route", "replace", ip.String()+"/32", "via", node.IPv4.String()); err != nil {
				t.Fatalf("lead to %s: %v\n%s", node.Name, err, out)
			}
			q := question{from: l.on(l.host), targets: scene.Targets([]string{"tcp", "udp"}, ip)}
			l.change(t, service, func() { service.Spec.LoadBalancerSourceRanges = []string{l.host.IPs[0].String() + "/32"} })
			q.await(t, name(l.one))
			l.change(t, service, func() { service.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24"} })
			q.await(t, nothing)
			q.expectNothing(t)
		}
	},
})

// serviceAtExternalIP makes a load balancer in the VPC that has an external IP too, which is
// granted to its tenant for the time of a case.
func (l *lab) serviceAtExternalIP(t *testing.T, ip netip.Addr) *corev1.Service {
	t.Helper()
	l.Make(t, &v1alpha1.ExternalPool{
		ObjectMeta: metav1.ObjectMeta{Name: stage.Unique("pool")},
		Spec:       v1alpha1.ExternalPoolSpec{CIDRs: []string{ip.String()}, AllowedTenants: []string{l.tenant.Name}, Use: v1alpha1.PoolForExternalIPs},
	})
	service := scene.Service(l.tenant.Namespace.Name, stage.Unique("kept"), "")
	service.Spec.Selector, service.Spec.ExternalIPs = nil, []string{ip.String()}
	service.Spec.Type, service.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To(v1alpha1.LoadBalancerClass)
	until(t, "the grant of the external IP", func(ctx context.Context) (bool, string, error) {
		err := l.Client.Create(ctx, service)
		return err == nil, fmt.Sprint(err), nil
	})
	l.RemoveAfter(t, service)
	return service
}
