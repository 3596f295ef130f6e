// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

func TestDecide_ExistingSets_OneKeptAndCompleted(t *testing.T) {
	pod, other := operatortest.Pod("blue", "a", "p", "", ""), operatortest.Pod("blue", "a", "q", "", "")
	address := func(ip string, set ...string) *store.Address { return operatortest.Address("v", "s", ip, pod, set...) }
	second := address("10.0.0.7")
	second.Attachment = "eth1"
	assumed := address("10.0.0.2", "fd00::2")
	assumed.UID = ""
	external := address("10.0.0.6")
	external.External = true
	elsewhere, misnamed, nodes := address("10.0.0.3"), address("10.0.0.4"), address("10.0.0.5")
	elsewhere.Node, misnamed.Holder.Name, nodes.Holder.Kind = "node-2", "q", store.HolderNode
	for _, tc := range []struct {
		name   string
		rows   []any
		prefer []netip.Addr
		keep   []string
		drop   []string
	}{
		{name: "nothing"},
		{name: "a complete set", rows: []any{address("10.0.0.1", "fd00::1"), address("fd00::1", "10.0.0.1")}, keep: []string{"10.0.0.1", "fd00::1"}},
		{name: "half a set", rows: []any{address("fd00::1", "10.0.0.1")}, keep: []string{"10.0.0.1", "fd00::1"}},
		{name: "half a set whose other half somebody has", rows: []any{
			address("fd00::1", "10.0.0.1"), operatortest.Address("v", "s", "10.0.0.1", other),
		}, drop: []string{"fd00::1"}},
		{name: "half a set whose other half somebody has in another VPC", rows: []any{
			address("fd00::1", "10.0.0.1"), operatortest.Address("w", "s", "10.0.0.1", other),
		}, keep: []string{"10.0.0.1", "fd00::1"}},
		{name: "an assumed one", rows: []any{assumed}, keep: []string{"10.0.0.2", "fd00::2"}},
		{
			name: "two sets, the fuller one stays", rows: []any{
				address("10.0.0.1", "fd00::1"), address("10.0.0.2", "fd00::2"), address("fd00::2", "10.0.0.2"),
			},
			keep: []string{"10.0.0.2", "fd00::2"}, drop: []string{"10.0.0.1"},
		},
		{
			name: "two sets, the one that is not preferred goes first", rows: []any{
				address("10.0.0.1", "fd00::1"), address("10.0.0.2", "fd00::2"), address("fd00::2", "10.0.0.2"),
			},
			prefer: operatortest.Addrs("10.0.0.1", "fd00::1"), drop: []string{"10.0.0.2", "fd00::2"},
		},
		{
			name: "two sets with an IP of both", rows: []any{
				address("10.0.0.1", "fd00::2"), address("fd00::2", "10.0.0.1"), address("fd00::1", "10.0.0.1"),
			},
			prefer: operatortest.Addrs("10.0.0.1", "fd00::1"), drop: []string{"10.0.0.1", "fd00::2"},
		},
		{
			name: "half of the preferred set", rows: []any{address("fd00::1", "10.0.0.1")},
			prefer: operatortest.Addrs("10.0.0.1", "fd00::1"), keep: []string{"10.0.0.1", "fd00::1"},
		},
		{name: "another VPC's", rows: []any{operatortest.Address("w", "s", "10.0.0.1", pod)}, drop: []string{"10.0.0.1"}},
		{name: "for another CNI plugin", rows: []any{external}, drop: []string{"10.0.0.6"}},
		{name: "another attachment's", rows: []any{second}},
		{
			name: "what does not count is neither kept nor in the way", prefer: operatortest.Addrs("10.0.0.1"),
			rows: []any{elsewhere, misnamed, nodes, address("10.0.0.1")}, keep: []string{"10.0.0.1"},
		},
		{name: "another pod's", rows: []any{operatortest.Address("v", "s", "10.0.0.1", other)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, tc.rows...).View(func(tx store.ReadTx) {
				request := ipam.Request{VPC: "v", Node: pod.Node, Attachment: "eth0", Holder: pod.AsHolder()}
				p := decide(tx, request, tc.prefer)
				if got := ips(p.keep); !slices.Equal(got, tc.keep) {
					t.Errorf("keeps %v, want %v", got, tc.keep)
				}
				if got := ips(p.drop); !slices.Equal(got, tc.drop) {
					t.Errorf("drops %v, want %v", got, tc.drop)
				}
			})
		})
	}
}

func TestAddressObject_ExternalPlugin_SurvivesConversion(t *testing.T) {
	row := operatortest.Address("v", "s", "10.0.0.1", operatortest.Pod("blue", "a", "p", "", ""))
	for _, external := range []bool{false, true} {
		row.External = external
		object, err := addresses.object(row)
		if err != nil {
			t.Fatal(err)
		}
		got, err := addresses.kind.Convert(object)
		if err != nil || got.External != external {
			t.Errorf("external %t: %+v, %v", external, got, err)
		}
	}
}

func ips(rows []*store.Address) []string {
	var texts []string
	for _, row := range rows {
		texts = append(texts, row.IP.String())
	}
	slices.SortStableFunc(texts, func(a, b string) int { return netip.MustParseAddr(a).Compare(netip.MustParseAddr(b)) })
	return texts
}
