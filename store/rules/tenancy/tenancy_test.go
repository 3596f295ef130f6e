// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

func TestResolve_Member_NetworkFoundOrRefused(t *testing.T) {
	foreign := operatortest.Network("blue", "blue-b", "flannel", "blue-vpc", 1)
	foreign.Type = "flat"
	rows := []any{
		operatortest.VPC("blue-vpc", 1, []string{"blue"}, "10.0.0.0/16"),
		operatortest.Subnet("blue-net1", "blue-vpc", "net1", 0, "10.0.1.0/24"),
		operatortest.VPC("blue-other", 2, []string{"blue"}, "10.0.0.0/16"),
		operatortest.Subnet("other-net1", "blue-other", "net1", 0, "10.0.1.0/24"),
		operatortest.Network("blue", "blue-a", "vpc-1", "blue-vpc", 2),
		operatortest.Network("blue", "blue-b", "vpc-1", "blue-other", 3),
		operatortest.Network("blue", "blue-c", "vpc-1", "blue-other", 4),
		operatortest.Network("blue", "blue-a", "default", "blue-other", 5),
		operatortest.Network("red", "red-a", "secret", "blue-vpc", 6),
		foreign,
	}
	for _, tc := range []struct {
		name        string
		member      tenancy.Member
		wantNetwork string
		wantVPC     string
		wantReason  string
		wantText    string
	}{
		{
			name: "its own namespace's Network comes first, though a younger one", member: tenancy.Member{Tenant: "blue", Namespace: "blue-b", Label: "vpc-1"},
			wantNetwork: "blue-b/vpc-1", wantVPC: "blue-other",
		},
		{
			name: "a namespace without one uses the tenant's oldest", member: tenancy.Member{Tenant: "blue", Namespace: "blue-x", Label: "vpc-1"},
			wantNetwork: "blue-a/vpc-1", wantVPC: "blue-vpc",
		},
		{
			name: "without a label the tenant's Network default", member: tenancy.Member{Tenant: "blue", Namespace: "blue-b"},
			wantNetwork: "blue-a/default", wantVPC: "blue-other",
		},
		{
			name: "another tenant's Network does not exist", member: tenancy.Member{Tenant: "blue", Namespace: "blue-a", Label: "secret"},
			wantReason: v1alpha1.NetworkNotFoundReason, wantText: `no Network "secret"`,
		},
		{
			name: "a Network of another type is not served", member: tenancy.Member{Tenant: "blue", Namespace: "blue-b", Label: "flannel"},
			wantNetwork: "blue-b/flannel", wantReason: v1alpha1.NetworkTypeReason, wantText: `type "flat"`,
		},
		{
			name: "a VPC that does not allow the tenant", member: tenancy.Member{Tenant: "red", Namespace: "red-a", Label: "secret"},
			wantNetwork: "red-a/secret", wantVPC: "blue-vpc", wantReason: v1alpha1.NetworkNotReadyReason, wantText: "does not allow tenant",
		},
		{
			name: "no default network", member: tenancy.Member{Tenant: "red", Namespace: "red-a"},
			wantReason: v1alpha1.NoDefaultNetworkReason,
			wantText: `no Network named "default" and may not use the default VPC: name a Network of the tenant's in the label arktos.futurewei.com/network, ` +
				`create one with the name "default", or ask the cluster's operator to add the tenant to spec.allowedTenants of VPC "the-default"`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, rows...).View(func(tx store.ReadTx) {
				target, refusal := tenancy.Resolve(tx, tc.member, "the-default")
				check(t, refusal, tc.wantReason, tc.wantText)
				if got := target.NetworkKey(); got != tc.wantNetwork {
					t.Errorf("Network is %q, want %q", got, tc.wantNetwork)
				}
				if tc.wantVPC != "" && (target.VPC == nil || target.VPC.Name != tc.wantVPC) {
					t.Errorf("VPC is %+v, want %s", target.VPC, tc.wantVPC)
				}
			})
		})
	}
}

func check(t *testing.T, refusal *tenancy.Refusal, reason, text string) {
	t.Helper()
	switch {
	case reason == "" && refusal != nil:
		t.Errorf("refused for %s: %s", refusal.Reason, refusal.Message)
	case reason != "" && refusal == nil:
		t.Errorf("not refused, want %s", reason)
	case reason != "" && (refusal.Reason != reason || !strings.Contains(refusal.Message, text)):
		t.Errorf("refused for %s: %s; want %s with %q", refusal.Reason, refusal.Message, reason, text)
	}
}

func TestResolve_NoLabel_DefaultVPCIfAllowed(t *testing.T) {
	everybody := operatortest.VPC("default", 1, []string{"*"}, "10.244.0.0/16")
	nobody := operatortest.VPC("default", 1, nil, "10.244.0.0/16")
	subnet := operatortest.Subnet("default", "default", "default", 0, "10.244.0.0/16")
	unready := *everybody
	unready.Ready = false
	for _, tc := range []struct {
		name             string
		rows             []any
		wantReason, text string
	}{
		{name: "allowed", rows: []any{everybody, subnet}},
		{name: "allowed as one without a label", rows: []any{operatortest.VPC("default", 1, []string{"ns:*"}, "10.244.0.0/16"), subnet}},
		{name: "not allowed", rows: []any{nobody, subnet}, wantReason: v1alpha1.NoDefaultNetworkReason},
		{name: "missing", wantReason: v1alpha1.NoDefaultNetworkReason},
		{name: "not ready", rows: []any{&unready, subnet}, wantReason: v1alpha1.NetworkNotReadyReason, text: "is not ready"},
		{name: "without a subnet", rows: []any{everybody}, wantReason: v1alpha1.NetworkNotReadyReason, text: "create a Subnet, or correct"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, tc.rows...).View(func(tx store.ReadTx) {
				target, refusal := tenancy.Resolve(tx, tenancy.Member{Tenant: "ns:a", Namespace: "a"}, "default")
				check(t, refusal, tc.wantReason, tc.text)
				if refusal == nil && (target.VPC.Name != "default" || target.Network != nil) {
					t.Errorf("target is %+v, want the default VPC and no Network", target)
				}
			})
		})
	}
}

func TestCheckNetwork_SeveralCauses_FirstNamed(t *testing.T) {
	net := operatortest.Network("blue", "a", "n", "v", 0)
	deleting := *net
	deleting.Deleting = true
	vpc := operatortest.VPC("v", 1, []string{"blue"}, "10.0.0.0/16")
	subnet := operatortest.Subnet("s", "v", "s", 0, "10.0.0.0/24")
	with := func(change func(*store.VPC)) *store.VPC {
		changed := *vpc
		change(&changed)
		return &changed
	}
	unready := *subnet
	unready.Ready = false
	leaving := *subnet
	leaving.Deleting = true
	for _, tc := range []struct {
		name   string
		net    *store.Network
		rows   []any
		reason string
	}{
		{"all is well", net, []any{vpc, subnet}, ""},
		{"the Network is being deleted", &deleting, []any{vpc, subnet}, v1alpha1.DeletingReason},
		{"no VPC", net, nil, v1alpha1.VPCNotFoundReason},
		{"the VPC allows nobody", net, []any{with(func(v *store.VPC) { v.AllowedTenants = nil }), subnet}, v1alpha1.TenantNotAllowedReason},
		{"the VPC allows everybody", net, []any{with(func(v *store.VPC) { v.AllowedTenants = []string{"*"} }), subnet}, ""},
		{"the VPC is not ready", net, []any{with(func(v *store.VPC) { v.Ready = false }), subnet}, v1alpha1.VPCNotReadyReason},
		{"the VPC has no VNI", net, []any{with(func(v *store.VPC) { v.VNI = 0 }), subnet}, v1alpha1.VPCNotReadyReason},
		{"the VPC is being deleted", net, []any{with(func(v *store.VPC) { v.Deleting = true }), subnet}, v1alpha1.VPCNotReadyReason},
		{"no subnet", net, []any{vpc}, v1alpha1.NoReadySubnetReason},
		{"no ready subnet", net, []any{vpc, &unready}, v1alpha1.NoReadySubnetReason},
		{"the only subnet is being deleted", net, []any{vpc, &leaving}, v1alpha1.NoReadySubnetReason},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, tc.rows...).View(func(tx store.ReadTx) {
				check(t, tenancy.CheckNetwork(tx, tc.net), tc.reason, "")
			})
		})
	}
}
