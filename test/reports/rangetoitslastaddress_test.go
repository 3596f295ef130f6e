// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "range-to-its-last-address", Source: "k8snetworkplumbingwg/whereabouts#38", Kind: fullTables,
	Input: "A network is a /29 without a pool. Interfaces request dynamic addresses until none is left.",
	Want:  "The six hosts are given, and neither the network address nor the broadcast address. The next pod waits, and goes at once when it is deleted.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("small"))
		network := l.network(t, tenant, "10.121.1.8/29")
		pod := tenant.Pod("six", scene.OnNode(first), with(tenant, network, slices.Repeat([]string{dynamic}, 6)...))
		next := tenant.Pod("next", scene.OnNode(second), with(tenant, network, dynamic))
		l.RunFor(t, pod)
		var got []netip.Addr
		for _, device := range strings.Fields("ext1 ext2 ext3 ext4 ext5 ext6") {
			got = append(got, l.OnDevice(t, pod, device, false))
		}
		slices.SortFunc(got, netip.Addr.Compare)
		want := netip.MustParseAddr("10.121.1.9")
		for _, ip := range got {
			if ip != want {
				t.Fatalf("the addresses are %v, want 10.121.1.9 to 10.121.1.14", got)
			}
			want = want.Next()
		}
		l.Make(t, next)
		l.ExpectRefused(t, next, v1alpha1.NetworkExhaustedReason, network.Name)
		if err := l.Delete(patience(t), next); err != nil {
			t.Fatal(err)
		}
		l.expectFreed(t, next)
	},
})
