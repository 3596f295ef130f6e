// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenantconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

func TestDecide_SeveralTenantConfigs_OldestServes(t *testing.T) {
	named := func(group, name string, age int) *multinet.TenantConfig {
		return &multinet.TenantConfig{Meta: operatortest.Meta("uid-"+group+name, age), Group: group, Name: name}
	}
	old, young, invalid := named("danm.k8s.io", "z", 0), named("danm.io", "a", 5), named("danm.k8s.io", "b", 3)
	invalid.Invalid = "no device"
	for _, tc := range []struct {
		name         string
		of           *multinet.TenantConfig
		rows         []any
		reason, text string
	}{
		{"alone", young, []any{young}, v1alpha1.ReadyReason, ""},
		{"the older of two groups", old, []any{old, young}, v1alpha1.ReadyReason, ""},
		{"the younger", young, []any{old, young}, v1alpha1.OlderServesReason, `"z" of group danm.k8s.io`},
		{"one that can't be used", invalid, []any{invalid, young}, v1alpha1.InvalidReason, "no device"},
		{"the younger of one that can't be used", young, []any{invalid, young}, v1alpha1.OlderServesReason, `"b"`},
		{"before its row", young, nil, v1alpha1.ReadyReason, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, tc.rows...).View(func(tx store.ReadTx) {
				d := decide(tx, tc.of)
				if d.Reason != tc.reason || d.IsReady() != (tc.reason == v1alpha1.ReadyReason) || !strings.Contains(d.Message, tc.text) {
					t.Errorf("%s: %s, want %s with %q", d.Reason, d.Message, tc.reason, tc.text)
				}
			})
		})
	}
}

func TestStatus_Devices_NamedUpToBound(t *testing.T) {
	config := &multinet.TenantConfig{Devices: []multinet.HostDevice{{Name: "ens4"}, {Name: "vendor.example/nic"}}}
	if got := namesOf(config); got != "ens4, vendor.example/nic" {
		t.Errorf("got %q", got)
	}
	for range 62 {
		config.Devices = append(config.Devices, multinet.HostDevice{Name: "vendor.example/" + strings.Repeat("n", 200)})
	}
	if got := namesOf(config); len(got) > mostNames+20 || !strings.HasSuffix(got, " and 58 others") {
		t.Errorf("got %d bytes that end with %q", len(got), got[len(got)-20:])
	}
}

func TestOffer_ServingTenantConfig_Equal(t *testing.T) {
	config := &multinet.TenantConfig{
		Name: "profiles", Devices: []multinet.HostDevice{{Name: "ens4"}, {Name: "vendor.example/nic"}, {Name: "ens5", VNIType: "vlan"}},
		NetworkIDs: map[string]string{"flannel": "cbr0", "calico": "c"},
	}
	want := &v1alpha1.TenantNetworkGrant{
		TenantConfig: "profiles", Devices: []string{"ens4", "ens5"}, DevicePools: []string{"vendor.example/nic"}, NetworkTypes: []string{"calico", "flannel"},
	}
	if diff := cmp.Diff(want, offer(config)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	invalid, leaving := *config, *config
	invalid.Invalid, leaving.Deleting = "no device", true
	for _, none := range []*multinet.TenantConfig{nil, &invalid, &leaving} {
		if got := offer(none); got != nil {
			t.Errorf("%+v offers %+v", none, got)
		}
	}
}
