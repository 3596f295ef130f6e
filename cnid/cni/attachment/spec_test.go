// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/alioth-net/alioth/cnid/interfaces/attach"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// TestADriverGetsWhatTheJournalKept writes a record and reads it, as a daemon does that
// restores an interface after a restart.
func TestADriverGetsWhatTheJournalKept(t *testing.T) {
	wanted := journal.Interface{
		Pool: "x/vf", PCI: "0000:03:10.1", VF: &attach.VF{VLAN: 7, QoS: 3, Proto: "802.1ad", SpoofCheck: true, Trust: true, LinkState: "auto", MinTxRate: new(int), MaxTxRate: new(int)},
		Parent: "ens4", Mode: "private", IPv6: attach.IPv6On, AltName: "blue", MTU: 9000,
		Routes: []attach.Route{
			{Dst: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.1"), Table: 300},
			{Dst: netip.MustParsePrefix("2001:db8::/64")},
		},
		Rules: []attach.Rule{{From: netip.MustParsePrefix("192.0.2.7/32"), Table: 300}},
	}
	text, err := json.Marshal(journal.Record{Interface: wanted})
	if err != nil {
		t.Fatal(err)
	}
	var rec journal.Record
	if err := json.Unmarshal(text, &rec); err != nil {
		t.Fatal(err)
	}
	want := attach.Spec{
		PCI: wanted.PCI, VF: wanted.VF,
		Parent: wanted.Parent, Mode: wanted.Mode, IPv6: wanted.IPv6, AltName: wanted.AltName, MTU: wanted.MTU, Routes: wanted.Routes, Rules: wanted.Rules,
	}
	ignore := cmpopts.IgnoreFields(attach.Spec{}, "MAC", "Description")
	if diff := cmp.Diff(want, specOf(rec), ignore, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Errorf("the spec (-want +got):\n%s", diff)
	}
}
