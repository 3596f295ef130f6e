// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

func withNode(c *Config) { c.NetnsCookie = 4000 }

func TestPlanNamespace_Attachments_VPCInOrder(t *testing.T) {
	w := newWorld(t, vpc("blue", 20, "10.10.0.0/16"), vpc("red", 30, "10.20.0.0/16"))
	w.attach("red", 30, "a", "10.20.1.10/24")
	w.attach("blue", 20, "b", "10.10.1.10/24")
	w.attach("blue", 20, "a-second", "10.10.1.11/24")
	w.records[2].Device.NetnsCookie = w.records[0].Device.NetnsCookie
	w.attach("blue", 20, "unfinished", "10.10.1.12/24")
	w.records[3].Phase = journal.PhaseIntended
	want := []state.Namespace{
		{Cookie: 4001, Memberships: []state.Membership{
			{VNI: 30, Addrs: ips("10.20.1.10"), Ifindex: 101}, {VNI: 20, Addrs: ips("10.10.1.11"), Ifindex: 103},
		}},
		{Cookie: 4002, Memberships: []state.Membership{{VNI: 20, Addrs: ips("10.10.1.10"), Ifindex: 102}}},
	}
	if diff := cmp.Diff(want, w.build(withNode).Datapath.Namespaces, byValue); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}

func TestPlanNamespace_Full_NoMoreInterfaces(t *testing.T) {
	w := newWorld(t, vpc("blue", 20, "10.10.0.0/16"))
	for i := range state.MaxMemberships + 1 {
		w.attach("blue", 20, string(rune('a'+i)), fmt.Sprintf("10.10.1.%d/24", 10+i))
		w.records[i].Device.NetnsCookie = 4001
	}
	if got := w.build().Datapath.Namespaces; len(got) != 1 || len(got[0].Memberships) != state.MaxMemberships {
		t.Errorf("namespaces are %+v", got)
	}
}

func TestSharedService_SameBackends_OpenToSockets(t *testing.T) {
	defaultVPC := func(change func(*store.VPC)) func(store.Tx) error {
		return func(tx store.Tx) error {
			row := &store.VPC{
				Meta: store.Meta{UID: "default"}, Name: "default", VNI: 5, Ready: true, Prefixes: prefixes("10.5.0.0/16"), EgressMasquerade: true,
			}
			change(row)
			return store.PutVPC(tx, row)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*store.VPC)
		shared bool
	}{
		{"the default VPC's", func(*store.VPC) {}, true},
		{"those of a default VPC without egress", func(v *store.VPC) { v.EgressMasquerade = false }, false},
		{"those of a default VPC with a list of what is allowed", func(v *store.VPC) { v.EgressAllow = prefixes("192.0.2.0/24") }, false},
		{"those of a default VPC with a list of what is denied", func(v *store.VPC) { v.EgressDeny = prefixes("192.0.2.0/24") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, defaultVPC(c.change), vpc("blue", 20, "10.10.0.0/16"), node("node1", "192.0.2.1"),
				subnet("d", "default", 1, true, "10.5.1.0/24", "10.5.1.1"), address("default", "10.5.1.2", "node1", store.HolderNode, "node1"))
			w.attach("default", 5, "a", "10.5.1.10/24")
			w.attach("blue", 20, "b", "10.10.1.10/24")
			w.attach("default", 5, "both", "10.5.1.11/24")
			w.attach("blue", 20, "both-second", "10.10.1.11/24")
			w.records[3].Device.NetnsCookie = w.records[2].Device.NetnsCookie
			got := map[uint64]bool{}
			for _, n := range w.build(withNode).Datapath.Namespaces {
				got[n.Cookie] = n.Shared
			}
			want := map[uint64]bool{4000: true, 4001: c.shared, 4002: false, 4003: false}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("who reaches shared services (-want +got):\n%s", diff)
			}
		})
	}
}
