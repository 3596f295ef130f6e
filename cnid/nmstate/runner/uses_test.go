// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/nmstate/permit"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

func TestRunnerUses_NodeNetwork_AllUsesListed(t *testing.T) {
	record := func(name, parent string, change func(*journal.Record)) journal.Record {
		rec := journal.Record{Identity: journal.Identity{Key: journal.Key{IfName: "net1"}, Pod: journal.Pod{Namespace: "default", Name: name}}}
		rec.Parent, rec.MTU = parent, 1400
		change(&rec)
		return rec
	}
	records := []journal.Record{
		record("plain", "eth1", func(*journal.Record) {}),
		record("tagged", "eth1", func(rec *journal.Record) { rec.VLAN = 7 }),
		record("tunnelled", "eth2", func(rec *journal.Record) { rec.VXLAN, rec.MTU = 8, 1450 }),
		record("vf", "", func(rec *journal.Record) { rec.PCI = "0000:01:00.3" }),
		record("gone", "", func(rec *journal.Record) { rec.PCI = "0000:02:00.3" }),
		record("pair", "", func(*journal.Record) {}),
	}
	wanted := []links.Wanted{
		{LinkID: multinet.LinkID{Device: "eth1", Type: multinet.VLAN, VNI: 9}, MTU: 1500},
		{LinkID: multinet.LinkID{Device: "eth2", Type: multinet.VXLAN, VNI: 10}},
	}
	number := func(pci string) (string, int, error) {
		if pci == "0000:01:00.3" {
			return "ens4", 2, nil
		}
		return "", 0, errors.New("the node has no such device")
	}
	want := []permit.Use{
		{Interface: "eth1", MTU: 1400, By: "pod default/plain (interface net1)"},
		{Interface: "eth1", MTU: 1400, VLAN: 7, By: "pod default/tagged (interface net1)"},
		{Interface: "eth2", MTU: 1450 + netdev.OverheadIPv4, By: "pod default/tunnelled (interface net1)"},
		{Interface: "ens4", VFs: 3, By: "pod default/vf (interface net1)"},
		{Interface: "eth1", MTU: 1500, VLAN: 9, By: "host link VLAN 9 on eth1"},
		{Interface: "eth2", By: "host link VXLAN 10 on eth2"},
	}
	equal := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if diff := cmp.Diff(want, usesOf(records, wanted, number), equal); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
	address := netip.MustParseAddr("192.0.2.7")
	tunnel := permit.Use{Interface: "eth0", MTU: 1500, Addresses: []netip.Addr{address}, By: "Alioth's tunnel"}
	if diff := cmp.Diff(tunnel, tunnelUse(netdev.Underlay{Device: "eth0", PodMTU: 1450}, address), equal); diff != "" {
		t.Errorf("use by the tunnel (-want +got):\n%s", diff)
	}
}
