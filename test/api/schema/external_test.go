// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"net/netip"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func pool() *v1alpha1.ExternalPool {
	return &v1alpha1.ExternalPool{
		ObjectMeta: named("edge"),
		Spec:       v1alpha1.ExternalPoolSpec{CIDRs: []string{"192.0.2.16/28", "192.0.2.7", "2001:db8::10-2001:db8::1f"}, AllowedTenants: []string{"customer-a"}},
	}
}

func TestExternalPool_WrongValue_Refused(t *testing.T) {
	const form = "each entry must be an address, a CIDR, or a range"
	ranges := func(cidrs ...string) func(*v1alpha1.ExternalPool) {
		return func(p *v1alpha1.ExternalPool) { p.Spec.CIDRs = cidrs }
	}
	checkCreations(t, pool, []creation[*v1alpha1.ExternalPool]{
		{"as it is", nil, ""},
		{"no range", ranges([]string{}...), "should have at least 1 items"},
		{"a word", ranges("edge"), form},
		{"a range across families", ranges("192.0.2.1-2001:db8::1"), form},
		{"host bits", ranges("192.0.2.17/28"), "a CIDR must not have host bits"},
		{"IPv6 host bits", ranges("2001:db8::11/124"), "a CIDR must not have host bits"},
		{"a range without an end", ranges("192.0.2.1-"), form},
		{"one range twice", ranges("192.0.2.1", "192.0.2.1"), "Duplicate value"},
		{"for external IPs", func(p *v1alpha1.ExternalPool) { p.Spec.Use = v1alpha1.PoolForExternalIPs }, ""},
		{"for something else", func(p *v1alpha1.ExternalPool) { p.Spec.Use = "Pods" }, "Unsupported value"},
		{"for another pattern", func(p *v1alpha1.ExternalPool) { p.Spec.AllowedTenants = []string{"ns:a*"} }, "the only patterns are"},
		{"for nobody", func(p *v1alpha1.ExternalPool) { p.Spec.AllowedTenants = nil }, ""},
		{"for a tenant without a name", func(p *v1alpha1.ExternalPool) { p.Spec.AllowedTenants = []string{""} }, "allowedTenants"},
	})
	checkUpdates(t, pool, []update[*v1alpha1.ExternalPool]{
		{name: "changes its use", mutate: func(p *v1alpha1.ExternalPool) { p.Spec.Use = v1alpha1.PoolForExternalIPs }, want: "spec.use can't change"},
		{name: "gets another range", mutate: ranges("192.0.2.32/28"), want: ""},
	})
}

func externalAddressOf(ip string) *v1alpha1.ExternalAddress {
	return &v1alpha1.ExternalAddress{
		ObjectMeta: named(v1alpha1.ExternalAddressName(netip.MustParseAddr(ip))),
		Spec: v1alpha1.ExternalAddressSpec{
			IP: ip, Pool: "edge", Service: v1alpha1.ServiceReference{Namespace: "customer-a", Name: "web", UID: "3f0c"},
		},
	}
}

func TestExternalAddress_WrongValue_Refused(t *testing.T) {
	const tie = "metadata.name must be <spec.ip>"
	checkCreations(t, func() *v1alpha1.ExternalAddress { return externalAddressOf("192.0.2.17") }, []creation[*v1alpha1.ExternalAddress]{
		{"as it is", nil, ""},
		{"another IP's name", func(a *v1alpha1.ExternalAddress) { a.Name = "192.0.2.18" }, tie},
		{"no address", func(a *v1alpha1.ExternalAddress) { a.Name, a.Spec.IP = "0.0.0.0", "0.0.0.0" }, "must be the address of one host"},
		{"many hosts", func(a *v1alpha1.ExternalAddress) { a.Name, a.Spec.IP = "224.0.0.1", "224.0.0.1" }, "must be the address of one host"},
		{"not canonical", func(a *v1alpha1.ExternalAddress) { a.Name, a.Spec.IP = "2001-db8-0--1", "2001:db8:0::1" }, "must be an IP address in canonical form"},
		{"no pool", func(a *v1alpha1.ExternalAddress) { a.Spec.Pool = "" }, "spec.pool"},
		{"no Service", func(a *v1alpha1.ExternalAddress) { a.Spec.Service = v1alpha1.ServiceReference{} }, "spec.service"},
	})
	checkUpdates(t, func() *v1alpha1.ExternalAddress { return externalAddressOf("192.0.2.50") }, []update[*v1alpha1.ExternalAddress]{
		{name: "another Service", mutate: func(a *v1alpha1.ExternalAddress) { a.Spec.Service.UID = "successor" }, want: "an ExternalAddress can't change"},
		{name: "a label", mutate: func(a *v1alpha1.ExternalAddress) { a.Labels = map[string]string{"a": "b"} }, want: ""},
	})
}

func TestExternalAddress_SecondClaimOrNodeChange_Judged(t *testing.T) {
	c := newClient(t)
	first := externalAddressOf("192.0.2.99")
	if err := c.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), externalAddressOf("192.0.2.99")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the second claim got %v, want AlreadyExists", err)
	}
	for _, node := range []string{"node-a", "", "node-b"} {
		first.Status.Node = node
		if err := c.Status().Update(t.Context(), first); err != nil {
			t.Errorf("node %q: %v", node, err)
		}
	}
	cells := row(t, "/apis/alioth.dev/v1alpha1/externaladdresses/192.0.2.99")
	for name, want := range map[string]string{"IP": "192.0.2.99", "Pool": "edge", "Node": "node-b", "Namespace": "customer-a", "Service": "web"} {
		if cells[name] != want {
			t.Errorf("column %s: %q, want %q", name, cells[name], want)
		}
	}
	if err := c.Delete(t.Context(), first, client.Preconditions{UID: &first.UID}); err != nil {
		t.Error(err)
	}
}
