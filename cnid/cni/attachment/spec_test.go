// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// TestDriverSpec_FromJournal_RecordValuesGiven writes a record and reads it, as a daemon does that
// restores an interface after a restart.
func TestDriverSpec_FromJournal_RecordValuesGiven(t *testing.T) {
	seven := 7
	wanted := journal.Interface{
		PCI: "0000:03:10.1", AltName: "blue",
		Config: netif.Config{
			Pool: "x/vf", VLAN: 7, Parent: "ens4", Mode: "private", IPv6: netif.IPv6On, MTU: 9000,
			VF: &netif.VF{QoS: &seven, Proto: "802.1ad", SpoofCheck: netif.On, Trust: netif.On, LinkState: "auto", MinTxRate: new(int), MaxTxRate: new(int)},
			Routes: []netif.Route{
				{Dst: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.1"), Table: 300},
				{Dst: netip.MustParsePrefix("2001:db8::/64")},
			},
			Rules: []netif.Rule{{From: netip.MustParsePrefix("192.0.2.7/32"), Table: 300}},
		},
	}
	text, err := json.Marshal(journal.Record{Interface: wanted})
	if err != nil {
		t.Fatal(err)
	}
	var rec journal.Record
	if err := json.Unmarshal(text, &rec); err != nil {
		t.Fatal(err)
	}
	want := ifdriver.Spec{PCI: wanted.PCI, AltName: wanted.AltName, Config: wanted.Config}
	ignore := cmpopts.IgnoreFields(ifdriver.Spec{}, "MAC", "Description")
	if diff := cmp.Diff(want, specOf(rec), ignore, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Errorf("the spec (-want +got):\n%s", diff)
	}
}
