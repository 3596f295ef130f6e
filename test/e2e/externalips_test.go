// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/refusal"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// naming returns a Service of a namespace that names external IPs. Its node ports are the way from
// nodes without a backend to nodes that have one.
func naming(namespace string, ips ...netip.Addr) *corev1.Service {
	service := serviceOf(namespace, "named", "web")
	service.Spec.Type = corev1.ServiceTypeNodePort
	for _, ip := range ips {
		service.Spec.ExternalIPs = append(service.Spec.ExternalIPs, ip.String())
	}
	return service
}

// expectNoGrant requires that the API refuses a Service with external IPs to a tenant.
func (e *env) expectNoGrant(t *testing.T, tenant *scene.Tenant, ips ...netip.Addr) {
	t.Helper()
	service := naming(tenant.Namespace.Name, ips...)
	err := e.Client.Create(within(t, patience), service, client.DryRunAll)
	want := fmt.Sprintf("no ExternalPool with use: ExternalIPs grants %s to the tenant %q", strings.Join(service.Spec.ExternalIPs, ", "), tenant.Name)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("external IPs %v: %v, want %q", ips, err, want)
	}
}

// makeGranted creates a Service as soon as admission has heard of the grant.
func (e *env) makeGranted(t *testing.T, service *corev1.Service) {
	t.Helper()
	err := scene.Until(within(t, patience), "the external IPs to be granted", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Create(ctx, service)
		if refusal.MayPass(err) {
			return false, err.Error(), nil
		}
		return err == nil, "", err
	})
	if err != nil {
		t.Fatal(err)
	}
	e.RemoveAfter(t, service)
}

// awaitPool waits until the condition Ready of a pool has a reason.
func (e *env) awaitPool(t *testing.T, pool *v1alpha1.ExternalPool, reason string) {
	t.Helper()
	err := scene.Until(within(t, patience), "ExternalPool to be "+reason, func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(pool), pool)
		condition := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ReadyCondition)
		return condition != nil && condition.Reason == reason, fmt.Sprint(pool.Status.Conditions), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// leadBy gives a host a route to addresses by a node.
func (e *env) leadBy(t *testing.T, host *cluster.Host, node cluster.Node, ips ...netip.Addr) {
	t.Helper()
	for _, ip := range ips {
		via := node.IPv4
		if ip.Is6() {
			via = node.IPv6
		}
		if _, err := host.Exec(within(t, patience), "ip", "route", "replace", ip.String(), "via", via.String(), "dev", "eth0"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExternalIPs_GrantedTenant_ReachedUntilGrantEnds(t *testing.T) {
	t.Parallel()
	e := start(t)
	_, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("named"))
	pod := tenant.Pod("server", scene.OnNode(second), scene.WithLabel("app", "web"))
	e.Run(t, pod)
	held4, held6 := e.onUnderlay(170)
	edge := e.externalPool(t, v1alpha1.PoolForLoadBalancers, []string{held4.String(), held6.String()}, tenant.Name)
	balanced, _ := e.publishOutside(t, pod, "balanced", func(spec *corev1.ServiceSpec) { spec.AllocateLoadBalancerNodePorts = ptr.To(false) })
	ip4, ip6 := e.onUnderlay(180)
	ips := []netip.Addr{ip4, ip6}
	v4, v6 := e.onUnderlay(220)
	host := e.outsideHostAt(t, "routed", v4, v6)

	e.expectNoGrant(t, tenant, ips...)
	pool := e.externalPool(t, v1alpha1.PoolForExternalIPs, []string{ip4.String(), ip6.String()}, tenant.Name)
	e.awaitPool(t, pool, v1alpha1.ReadyReason)
	p := published{naming(tenant.Namespace.Name, ips...), pod}
	e.makeGranted(t, p.service)
	for _, node := range e.Lab.Nodes() {
		t.Run("by "+node.Name, func(t *testing.T) {
			e.leadBy(t, host, node, ips...)
			e.expectFromOutside(t, host, p, edgeTargets(ips...)...)
			e.expectRefusal(t, host, scene.TargetPort("connect", ip4, report.PortStream), scene.TargetPort("connect", ip6, report.PortStream))
		})
	}
	t.Run("nobody says that he has them", func(t *testing.T) { e.awaitNobody(t, host, ips...) })
	t.Run("without node ports a node with a backend announces", func(t *testing.T) {
		e.awaitAnnounced(t, host, e.nodeMACs(t, host), []netip.Addr{held4, held6}, second)
		e.expectFromOutside(t, host, balanced, edgeTargets(held4, held6)...)
		e.awaitEvent(t, balanced.service, v1alpha1.NotServedByAllNodesReason, held4.String())
	})
	t.Run("never what is somebody else's", func(t *testing.T) { e.expectNeverGranted(t, tenant, edge, held4) })
	t.Run("no longer than the grant", func(t *testing.T) {
		before := pool.DeepCopy()
		pool.Spec.AllowedTenants = nil
		if err := e.Client.Patch(within(t, patience), pool, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		e.awaitEvent(t, p.service, v1alpha1.ExternalIPsNotGrantedReason, ip4.String())
		e.awaitUnanswered(t, host, edgeTargets(ips...)...)
		e.expectNoGrant(t, tenant, ips...)
	})
}

// awaitUnanswered waits until no target answers a host any more.
func (e *env) awaitUnanswered(t *testing.T, host *cluster.Host, targets ...string) {
	t.Helper()
	err := scene.Until(within(t, patience), "nothing to answer", func(context.Context) (bool, string, error) {
		results := e.knock(t, host, targets...)
		return !slices.ContainsFunc(results, func(r report.Probe) bool { return r.OK }), fmt.Sprintf("%+v", results), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// expectNeverGranted requires that the addresses of a node, a service and a load balancer are
// refused as external IPs, even if a pool is made that has them: the pool does not become Ready.
// edge is the pool with the last one.
func (e *env) expectNeverGranted(t *testing.T, tenant *scene.Tenant, edge *v1alpha1.ExternalPool, held netip.Addr) {
	t.Helper()
	cluster := &corev1.Service{}
	if err := e.Client.Get(within(t, patience), client.ObjectKey{Namespace: "default", Name: "kubernetes"}, cluster); err != nil {
		t.Fatal(err)
	}
	// Of two pools of the same second the younger may be taken for the older.
	second := edge.CreationTimestamp.Add(time.Second)
	err := scene.Until(within(t, patience), "the next second", func(context.Context) (bool, string, error) { return !time.Now().Before(second), "", nil })
	if err != nil {
		t.Fatal(err)
	}
	for ip, reason := range map[netip.Addr]string{
		e.Lab.Nodes()[0].IPv4:                       v1alpha1.RangeReservedReason,
		netip.MustParseAddr(cluster.Spec.ClusterIP): v1alpha1.RangeReservedReason,
		held: v1alpha1.OverlapReason,
	} {
		e.expectNoGrant(t, tenant, ip)
		e.awaitPool(t, e.externalPool(t, v1alpha1.PoolForExternalIPs, []string{ip.String()}, tenant.Name), reason)
		e.expectNoGrant(t, tenant, ip)
	}
}
