// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// published is one of the objects with the operator's grants for admission. The test's
// end empties it again.
func published(t *testing.T, name string) *v1alpha1.AdmissionGrants {
	t.Helper()
	as := as(t, operator())
	object := &v1alpha1.AdmissionGrants{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := as.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		object.HostAccess, object.ExternalIPs = nil, nil
		if err := as.Update(context.WithoutCancel(t.Context()), object); err != nil {
			t.Error(err)
		}
	})
	return object
}

func publish(t *testing.T, object *v1alpha1.AdmissionGrants) {
	t.Helper()
	if err := as(t, operator()).Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func ports(protocol string, first, last int32) v1alpha1.HostPortRange {
	return v1alpha1.HostPortRange{Protocol: protocol, First: first, Last: last}
}

func onHostNetwork(p *corev1.Pod) *corev1.Pod {
	p.Spec.HostNetwork = true
	return p
}

func withHostPort(p *corev1.Pod, protocol corev1.Protocol, port int32) *corev1.Pod {
	container := &p.Spec.Containers[0]
	own := int32(80 + len(container.Ports)) // each once
	container.Ports = append(container.Ports, corev1.ContainerPort{ContainerPort: own, HostPort: port, Protocol: protocol})
	return p
}

func beforeOthers(p *corev1.Pod, port int32) *corev1.Pod {
	p.Spec.InitContainers = []corev1.Container{{
		Name: "first", Image: "example.com/none", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: port}},
	}}
	return p
}

func TestHostAccess_TenantWithoutGrant_Refused(t *testing.T) {
	admin := start(t)
	for name, labels := range map[string]map[string]string{
		"host-blue": tenant("blue"), "host-red": tenant("red"), "host-plain": nil, "host-empty": {v1alpha1.TenantLabel: ""},
		"host-baseline": {v1alpha1.TenantLabel: "blue", "pod-security.kubernetes.io/enforce": "baseline"},
	} {
		establish(t, admin, namespace(name, labels))
	}
	blueAdmin := person("host-blue-admin")
	grantIn(t, admin, "host-blue", blueAdmin, "admin")
	blue := func() *corev1.Pod { return pod("host-blue", "p", "") }
	red := func() *corev1.Pod { return pod("host-red", "p", "") }
	const network, port = `no HostAccess grants the network of the nodes to the tenant "`, "no HostAccess grants "
	grants := published(t, v1alpha1.HostAccessGrants)
	eventually(t, func(ctx context.Context) error { return admin.Create(ctx, blue(), client.DryRunAll) })
	// The operator's parameters grant nothing, as in a new cluster.
	run(t, slices.Concat(
		creations(t, "nothing of the node", blueAdmin, blue(), ""),
		creations(t, "a port of the pod alone", blueAdmin, withHostPort(blue(), "", 0), ""),
		creations(t, "the nodes' network", blueAdmin, onHostNetwork(blue()), network+`blue"`),
		creations(t, "that with a port", blueAdmin, withHostPort(onHostNetwork(blue()), "TCP", 80), network+`blue"`),
		creations(t, "the nodes' network, as an administrator", clusterAdmin(), onHostNetwork(blue()), network+`blue"`),
		creations(t, "a port", blueAdmin, withHostPort(blue(), "", 8080), port+`8080/TCP to the tenant "blue"`),
		creations(t, "a port of a container that runs before", blueAdmin, beforeOthers(blue(), 8080), port+`8080/TCP to the tenant "blue"`),
		creations(t, "without a label, the nodes' network", clusterAdmin(), onHostNetwork(pod("host-plain", "p", "")), ""),
		creations(t, "without a label, a port", clusterAdmin(), withHostPort(pod("host-plain", "p", ""), "", 8080), ""),
		creations(t, "with an empty label, a port", clusterAdmin(), withHostPort(pod("host-empty", "p", ""), "", 8080), ""),
	))
	grants.HostAccess = map[string]v1alpha1.HostGrant{
		"blue": {Ports: []v1alpha1.HostPortRange{ports("TCP", 8000, 8099), ports("UDP", 53, 53)}},
		"red":  {HostNetwork: true},
		"*":    {Ports: []v1alpha1.HostPortRange{ports("TCP", 443, 443)}},
	}
	publish(t, grants)
	eventually(t, func(ctx context.Context) error {
		return admin.Create(ctx, withHostPort(blue(), "", 443), client.DryRunAll)
	})
	run(t, slices.Concat(
		creations(t, "granted ports", blueAdmin, withHostPort(withHostPort(withHostPort(blue(), "TCP", 8000), "", 8099), "UDP", 53), ""),
		creations(t, "granted, and refused by Pod Security", clusterAdmin(), withHostPort(pod("host-baseline", "p", ""), "", 8000), "violates PodSecurity"),
		creations(t, "granted to all", clusterAdmin(), withHostPort(red(), "", 443), ""),
		creations(t, "of another protocol", blueAdmin, withHostPort(blue(), "UDP", 8000), port+"8000/UDP"),
		creations(t, "one above", blueAdmin, withHostPort(blue(), "", 8100), port+"8100/TCP"),
		creations(t, "one of two", blueAdmin, withHostPort(withHostPort(blue(), "", 8000), "", 7999), port+"7999/TCP to"),
		creations(t, "another tenant's", clusterAdmin(), withHostPort(red(), "", 8000), port+`8000/TCP to the tenant "red"`),
		creations(t, "ports are not the network", blueAdmin, onHostNetwork(blue()), network+`blue"`),
		creations(t, "the network", clusterAdmin(), withHostPort(onHostNetwork(red()), "", 80), ""),
	))
}

// Without the object no tenant has pods: if it is absent nothing else refuses them the nodes'
// network.
func TestTenantPods_GrantsObjectMissing_Refused(t *testing.T) {
	admin := start(t)
	establish(t, admin, namespace("host-before", tenant("before")))
	grants := published(t, v1alpha1.HostAccessGrants)
	eventually(t, func(ctx context.Context) error {
		return admin.Create(ctx, pod("host-before", "p", ""), client.DryRunAll)
	})
	remover := operator()
	remover.groups = append(remover.groups, "system:masters")
	if err := as(t, remover).Delete(t.Context(), grants); err != nil {
		t.Fatal(err)
	}
	grants.ObjectMeta = metav1.ObjectMeta{Name: grants.Name}
	for name, p := range map[string]*corev1.Pod{"of its own": pod("host-before", "p", ""), "on the nodes'": onHostNetwork(pod("host-before", "p", ""))} {
		eventually(t, func(ctx context.Context) error {
			if err := wantRefused(admin.Create(ctx, p, client.DryRunAll), "no params found"); err != nil {
				return fmt.Errorf("a pod with a network %s: %w", name, err)
			}
			return nil
		})
	}
	if err := as(t, operator()).Create(t.Context(), grants); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		return admin.Create(ctx, pod("host-before", "p", ""), client.DryRunAll)
	})
}

func TestAdmissionGrants_WriterNotOperator_Refused(t *testing.T) {
	start(t)
	const refused = "only the Alioth operator writes AdmissionGrants"
	for _, name := range []string{v1alpha1.HostAccessGrants, v1alpha1.ExternalIPGrants} {
		grants := published(t, name)
		runChanges(t, []change[*v1alpha1.AdmissionGrants]{
			{
				name:    name + ", host access by an administrator",
				who:     clusterAdmin(),
				object:  grants,
				edit:    func(g *v1alpha1.AdmissionGrants) { g.HostAccess = map[string]v1alpha1.HostGrant{"blue": {}} },
				refused: refused,
			},
			{name: name + ", external IPs by an administrator", who: clusterAdmin(), object: grants, edit: func(g *v1alpha1.AdmissionGrants) {
				g.ExternalIPs = []v1alpha1.ExternalIPGrant{{Pool: "edge", CIDRs: []string{"192.0.2.0/24"}, Tenants: []string{"*"}}}
			}, refused: refused},
			{name: name + ", a label", who: clusterAdmin(), object: grants, edit: func(g *v1alpha1.AdmissionGrants) { g.Labels = map[string]string{"a": "b"} }},
		})
		if err := wantRefused(as(t, clusterAdmin()).Delete(t.Context(), grants, client.DryRunAll), refused); err != nil {
			t.Error(err)
		}
	}
	another := &v1alpha1.AdmissionGrants{ObjectMeta: metav1.ObjectMeta{Name: "another"}, HostAccess: map[string]v1alpha1.HostGrant{"blue": {HostNetwork: true}}}
	run(t, creations(t, "another object", clusterAdmin(), another, refused))
}
