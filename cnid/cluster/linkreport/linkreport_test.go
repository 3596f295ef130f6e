// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package linkreport

import (
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// TestLinkReport_ManyEntries_FitsObject has more and longer failures than there is room for.
func TestLinkReport_ManyEntries_FitsObject(t *testing.T) {
	var list []multinet.LinkFailure
	for vni := range uint32(v1alpha1.MaxHostLinkFailures + 7) {
		list = append(list, multinet.LinkFailure{
			LinkID: multinet.LinkID{Device: "ens4", Type: multinet.VXLAN, VNI: vni + 1}, Reason: v1alpha1.LinkRefusedReason, Message: strings.Repeat("ä", 300),
		})
	}
	got := failuresOf(list)
	if len(got.Failures) != v1alpha1.MaxHostLinkFailures || got.More != 7 || !same(got, failuresOf(list)) {
		t.Errorf("%d failures and %d more", len(got.Failures), got.More)
	}
	if text := got.Failures[3].Message; len(text) > maxMessage || !utf8.ValidString(text) || got.Failures[3].VNI != 4 {
		t.Errorf("a failure is %+v", got.Failures[3])
	}
	if same(got, failuresOf(list[:5])) || !same(failuresOf(nil), v1alpha1.HostLinkReportSpec{}) {
		t.Error("reports are not compared by their content")
	}
}

// TestLinkReport_NodeLinks_AddressesAndConfigurationsListed, up to the limit of the report.
func TestLinkReport_NodeLinks_AddressesAndConfigurationsListed(t *testing.T) {
	r := New("node-1", nil, nil, nil)
	r.Addressed([]multinet.DeviceAddrs{{Device: "eth1", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}}})
	r.Configured([]string{"flannel"})
	want := v1alpha1.HostLinkReportSpec{
		Addressed: true, Addresses: []v1alpha1.HostLinkAddresses{{Device: "eth1", IPs: []string{"192.0.2.1", "2001:db8::1"}}},
		Configured: true, Configurations: []string{"flannel"},
	}
	if !same(r.now, want) || r.known {
		t.Errorf("the report is %+v, and complete: %t", r.now, r.known)
	}
	for name, changed := range map[string]func(*v1alpha1.HostLinkReportSpec){
		"address": func(s *v1alpha1.HostLinkReportSpec) {
			s.Addresses = []v1alpha1.HostLinkAddresses{{Device: "eth1", IPs: []string{"192.0.2.1"}}}
		},
		"configurations": func(s *v1alpha1.HostLinkReportSpec) { s.Configurations = nil },
		"configured":     func(s *v1alpha1.HostLinkReportSpec) { s.Configured = false },
	} {
		other := want
		if changed(&other); same(other, want) {
			t.Errorf("another %s is taken for the same", name)
		}
	}
	r.Failed(nil)
	r.Addressed(make([]multinet.DeviceAddrs, v1alpha1.MaxHostLinkAddresses+1))
	r.Configured(make([]string, v1alpha1.MaxHostLinkConfigurations+1))
	if len(r.now.Addresses) != v1alpha1.MaxHostLinkAddresses || r.now.Configured || len(r.now.Configurations) > 0 || !r.known {
		t.Errorf("the report is %+v", r.now)
	}
}
