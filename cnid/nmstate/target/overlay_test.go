// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

func TestOverlay_MergedInterface_SharesNoMemory(t *testing.T) {
	have := document.Interface{
		Name: "b", VXLAN: &document.VXLAN{Local: "a"},
		Bond: &document.LinkAggregation{Ports: []string{"p"}, Options: map[string]any{"miimon": 1}},
	}
	want := document.Interface{Name: "b", MTU: new(1400), Bond: &document.LinkAggregation{Options: map[string]any{"updelay": 2}}}
	merged := Merge(have, want)
	expected := document.Interface{
		Name: "b", MTU: new(1400), VXLAN: &document.VXLAN{Local: "a"},
		Bond: &document.LinkAggregation{Ports: []string{"p"}, Options: map[string]any{"miimon": 1, "updelay": 2}},
	}
	if diff := cmp.Diff(expected, merged); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	merged.VXLAN.Local, merged.Bond.Ports[0], merged.Bond.Options["miimon"], *merged.MTU = "x", "x", 9, 9
	if have.VXLAN.Local != "a" || have.Bond.Ports[0] != "p" || have.Bond.Options["miimon"] != 1 || len(have.Bond.Options) != 1 || *want.MTU != 1400 {
		t.Errorf("a change of the sum changed %v or %v", have, want)
	}
}

func TestOverlayOnly_NamedFields_OthersDropped(t *testing.T) {
	whole := document.Interface{
		Name: "b", MTU: new(1500), IPv4: &document.IP{Enabled: new(true), Addresses: []document.Address{{IP: "192.0.2.1", PrefixLength: 24}}},
		Bond: &document.LinkAggregation{Mode: "802.3ad", Options: map[string]any{"miimon": 1, "updelay": 2}},
	}
	named := document.Interface{Name: "b", IPv4: &document.IP{Enabled: new(false)}, Bond: &document.LinkAggregation{Options: map[string]any{"miimon": 7}}}
	expected := document.Interface{Name: "b", IPv4: &document.IP{Enabled: new(true)}, Bond: &document.LinkAggregation{Options: map[string]any{"miimon": 1}}}
	if diff := cmp.Diff(expected, Only(named, whole)); diff != "" {
		t.Errorf("what stays (-want +got):\n%s", diff)
	}
}
