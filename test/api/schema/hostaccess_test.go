// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func hostAccess() *v1alpha1.HostAccess {
	return &v1alpha1.HostAccess{
		ObjectMeta: named("ingress"),
		Spec:       v1alpha1.HostAccessSpec{AllowedTenants: []string{"customer-a"}, HostPorts: []string{"80/TCP", "8000-8099", "53/UDP"}},
	}
}

func TestHostAccess_WrongValue_Refused(t *testing.T) {
	const form, order, who = "each entry must be a port or a range of ports", "must not be above its last", "each entry must be a tenant"
	ports := func(list ...string) func(*v1alpha1.HostAccess) {
		return func(a *v1alpha1.HostAccess) { a.Spec.HostPorts = list }
	}
	tenants := func(list ...string) func(*v1alpha1.HostAccess) {
		return func(a *v1alpha1.HostAccess) { a.Spec.AllowedTenants = list }
	}
	var many []string
	for i := range 65 {
		many = append(many, strconv.Itoa(1000+i))
	}
	checkCreations(t, hostAccess, []creation[*v1alpha1.HostAccess]{
		{"as it is", nil, ""},
		{"the nodes' network", func(a *v1alpha1.HostAccess) { a.Spec.HostPorts, a.Spec.HostNetwork = nil, true }, ""},
		{"every port", ports("1-65535"), ""},
		{"one port as a range", ports("80-80/SCTP"), ""},
		{"as many as there may be", ports(many[:64]...), ""},
		{"more than that", ports(many...), "must have at most 64 items"},
		{"port 0", ports("0"), form},
		{"a port too large", ports("65536"), form},
		{"a range that ends too high", ports("80-65536"), form},
		{"a range the wrong way round", ports("81-80"), order},
		{"a range without an end", ports("80-"), form},
		{"another protocol", ports("80/ICMP"), form},
		{"a small one", ports("80/tcp"), form},
		{"a name", ports("http"), form},
		{"with a space", ports("80 /TCP"), form},
		{"nothing", ports(""), "hostPorts"},
		{"one twice", ports("80", "80"), "Duplicate value"},
		{"for everybody", tenants("*"), ""},
		{"for nobody", tenants(), ""},
		{"for a namespace without a label", tenants("ns:shop"), who},
		{"for all of those", tenants(v1alpha1.AnyUnlabelled), who},
		{"for a pattern", tenants("customer-*"), who},
		{"for what no label can be", tenants("_all"), who},
		{"for a name with dots", tenants("a.b_c-d"), ""},
		{"for somebody without a name", tenants(""), "allowedTenants"},
	})
	checkUpdates(t, hostAccess, []update[*v1alpha1.HostAccess]{
		{name: "grants something else", mutate: func(a *v1alpha1.HostAccess) { a.Spec.HostPorts = slices.Concat(a.Spec.HostPorts, []string{"443"}) }, want: ""},
	})
}
