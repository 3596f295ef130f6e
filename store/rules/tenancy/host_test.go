// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"testing"

	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

func TestLists_NameOrPattern_Matched(t *testing.T) {
	for _, c := range []struct {
		allowed []string
		tenant  string
		want    bool
	}{
		{nil, "blue", false},
		{[]string{"red"}, "blue", false},
		{[]string{"red", "blue"}, "blue", true},
		{[]string{"*"}, "blue", true},
		{[]string{"*"}, "ns:shop", true},
		{[]string{"ns:*"}, "blue", false},
		{[]string{"ns:*"}, "ns", false},
		{[]string{"ns:*"}, "ns:shop", true},
		{[]string{"ns:*", "blue"}, "blue", true},
		{[]string{"ns:shop"}, "ns:shop", true},
		{[]string{"ns:shop"}, "ns:other", false},
		{[]string{"bl*"}, "blue", false}, // no pattern, and the schema refuses it
	} {
		if got := tenancy.Lists(c.allowed, c.tenant); got != c.want {
			t.Errorf("%q has tenant %q: %v, want %v", c.allowed, c.tenant, got, c.want)
		}
	}
}

func TestHostPort_SeveralObjects_AnyOneGrants(t *testing.T) {
	grant := func(name string, tenants []string, ports ...external.HostPortRange) *external.HostAccess {
		return &external.HostAccess{Meta: store.Meta{UID: name}, Name: name, AllowedTenants: tenants, Ports: ports}
	}
	leaving := grant("leaving", []string{"*"}, external.HostPortRange{First: 1, Last: 65535})
	leaving.Deleting = true
	s := operatortest.New(t,
		grant("a", []string{"blue"}, external.HostPortRange{First: 80, Last: 80}, external.HostPortRange{Protocol: "UDP", First: 100, Last: 199}),
		grant("b", []string{"*"}, external.HostPortRange{Protocol: "SCTP", First: 9, Last: 9}),
		grant("empty", []string{"green"}), leaving)
	s.View(func(tx store.ReadTx) {
		for _, c := range []struct {
			tenant, protocol string
			port             uint16
			want             bool
		}{
			{"blue", "TCP", 80, true},
			{"blue", "SCTP", 80, true},
			{"blue", "TCP", 81, false},
			{"blue", "UDP", 100, true},
			{"blue", "UDP", 199, true},
			{"blue", "UDP", 200, false},
			{"blue", "TCP", 100, false},
			{"red", "TCP", 80, false},
			{"red", "SCTP", 9, true},
			{"green", "TCP", 80, false},
			{"ns:shop", "TCP", 12345, true},
		} {
			if got := tenancy.HostPortGranted(tx, c.tenant, c.protocol, c.port); got != c.want {
				t.Errorf("%s has %d/%s: %v, want %v", c.tenant, c.port, c.protocol, got, c.want)
			}
		}
	})
}
