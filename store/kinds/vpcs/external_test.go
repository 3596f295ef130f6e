// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/internal/kindtest"
	"github.com/alioth-net/alioth/store/rows/external"
)

func TestConvertHostAccess_Ports_Read(t *testing.T) {
	object := func(ports ...string) *v1alpha1.HostAccess {
		return &v1alpha1.HostAccess{
			ObjectMeta: objectMeta("ingress", "u", 3),
			Spec:       v1alpha1.HostAccessSpec{AllowedTenants: []string{"blue"}, HostPorts: ports, HostNetwork: true},
		}
	}
	got, err := convertHostAccess(object("8080", "30100-30199/TCP", "65535/UDP"))
	if err != nil {
		t.Fatal(err)
	}
	want := &external.HostAccess{
		Meta: store.Meta{UID: "u", ResourceVersion: "3"}, Name: "ingress", AllowedTenants: []string{"blue"}, HostNetwork: true,
		Ports: []external.HostPortRange{{First: 8080, Last: 8080}, {Protocol: "TCP", First: 30100, Last: 30199}, {Protocol: "UDP", First: 65535, Last: 65535}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, text := range []string{"", "http", "65536", "1-", "-1", "1-2-3"} {
		if row, err := convertHostAccess(object(text)); err == nil {
			t.Errorf("%q is read as %+v", text, row.Ports)
		}
	}
}

func TestConvertExternal_PoolAndAddress_Read(t *testing.T) {
	pool, err := convertExternalPool(&v1alpha1.ExternalPool{
		ObjectMeta: objectMeta("edge", "u", 3),
		Spec:       v1alpha1.ExternalPoolSpec{CIDRs: []string{"192.0.2.16/28", "2001:db8::10"}, AllowedTenants: []string{"*"}, Use: v1alpha1.PoolForExternalIPs},
		Status:     v1alpha1.ExternalPoolStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready", Message: "fine"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &external.Pool{
		Meta: store.Meta{UID: "u", ResourceVersion: "3"}, Name: "edge", AllowedTenants: []string{"*"}, ForExternalIPs: true,
		Ranges: []store.AddrRange{
			{First: netip.MustParseAddr("192.0.2.16"), Last: netip.MustParseAddr("192.0.2.31")},
			{First: netip.MustParseAddr("2001:db8::10"), Last: netip.MustParseAddr("2001:db8::10")},
		},
		Ready: true, Reason: "Ready", Message: "fine",
	}
	if diff := cmp.Diff(want, pool, kindtest.EqualRows); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
	address, err := convertExternalAddress(&v1alpha1.ExternalAddress{
		ObjectMeta: objectMeta("192.0.2.17", "u", 3),
		Spec:       v1alpha1.ExternalAddressSpec{IP: "192.0.2.17", Pool: "edge", Service: v1alpha1.ServiceReference{Namespace: "blue", Name: "web", UID: "s"}},
		Status:     v1alpha1.ExternalAddressStatus{Node: "node-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantAddress := &external.Address{
		Meta: store.Meta{UID: "u", ResourceVersion: "3"}, IP: netip.MustParseAddr("192.0.2.17"), Pool: "edge", Node: "node-1",
		Holder: store.Holder{Kind: store.HolderService, Namespace: "blue", Name: "web", UID: "s"},
	}
	if diff := cmp.Diff(wantAddress, address, kindtest.EqualRows); diff != "" {
		t.Errorf("address (-want +got):\n%s", diff)
	}
}
