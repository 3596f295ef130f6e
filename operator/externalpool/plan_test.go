// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package externalpool

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/operator/vpc"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

func pool(name string, age int, ranges ...string) *external.Pool {
	row := &external.Pool{Meta: operatortest.Meta("uid-"+name, age), Name: name}
	for _, text := range ranges {
		first, last, _ := strings.Cut(text, "-")
		row.Ranges = append(row.Ranges, store.AddrRange{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)})
	}
	return row
}

func TestExternalPool_RangeUsedElsewhere_Refused(t *testing.T) {
	rules := vpc.Rules{DefaultVPC: "default", Reserved: []vpc.ReservedRange{{Prefix: netip.MustParsePrefix("10.96.0.0/16"), What: "the cluster's service range"}}}
	leaving := pool("edge", 5, "192.0.2.16-192.0.2.31")
	leaving.Deleting = true
	node := &store.Node{Meta: operatortest.Meta("n", 0), Name: "node-1", AllAddresses: operatortest.Addrs("192.0.2.1", "2001:db8::1")}
	held := func(ip string) *external.Address {
		return &external.Address{Meta: operatortest.Meta(ip, 0), IP: netip.MustParseAddr(ip), Pool: "edge"}
	}
	for name, c := range map[string]struct {
		pool            *external.Pool
		rows            []any
		reason, message string
		used            int64
	}{
		"addresses beside the nodes'":   {pool("edge", 5, "192.0.2.16-192.0.2.31", "2001:db8::10-2001:db8::1f"), []any{held("192.0.2.16"), held("192.0.2.17")}, v1alpha1.ReadyReason, "", 2},
		"a node's":                      {pool("edge", 5, "192.0.2.0-192.0.2.31"), nil, v1alpha1.RangeReservedReason, "192.0.2.1 of node node-1", 0},
		"a node's, of a pool in use":    {pool("edge", 5, "192.0.2.0-192.0.2.31"), []any{held("192.0.2.16")}, v1alpha1.ReadyReason, "", 1},
		"those of Services":             {pool("edge", 5, "10.95.255.255-10.96.0.0"), nil, v1alpha1.RangeReservedReason, "the cluster's service range (10.96.0.0/16)", 0},
		"around those of Services":      {pool("edge", 5, "10.0.0.0-10.255.255.255"), nil, v1alpha1.RangeReservedReason, "10.96.0.0/16", 0},
		"those of the default VPC":      {pool("edge", 5, "10.244.1.1-10.244.1.1"), nil, v1alpha1.RangeReservedReason, "the default VPC (10.244.0.0/16)", 0},
		"of groups":                     {pool("edge", 5, "223.255.255.255-224.0.0.0"), nil, v1alpha1.RangeReservedReason, "224.0.0.0/3", 0},
		"of a link":                     {pool("edge", 5, "fe80::1-fe80::2"), nil, v1alpha1.RangeReservedReason, "fe80::/10", 0},
		"those of an older pool":        {pool("edge", 5, "192.0.2.16-192.0.2.31"), []any{pool("old", 4, "192.0.2.31-192.0.2.40")}, v1alpha1.OverlapReason, `192.0.2.31-192.0.2.40 of ExternalPool "old"`, 0},
		"those of a younger pool":       {pool("edge", 5, "192.0.2.16-192.0.2.31"), []any{pool("new", 6, "192.0.2.31-192.0.2.40")}, v1alpha1.ReadyReason, "", 0},
		"beside those of an older pool": {pool("edge", 5, "192.0.2.16-192.0.2.31"), []any{pool("old", 4, "192.0.2.32-192.0.2.40")}, v1alpha1.ReadyReason, "", 0},
		"on its way out":                {leaving, nil, v1alpha1.DeletingReason, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			rows := append([]any{operatortest.VPC("default", 1, []string{"*"}, "10.244.0.0/16"), node, c.pool}, c.rows...)
			operatortest.New(t, rows...).View(func(tx store.ReadTx) {
				d := decide(tx, c.pool, rules)
				if d.Reason != c.reason || d.IsReady() != (c.reason == v1alpha1.ReadyReason) || !strings.Contains(d.Message, c.message) || d.used != c.used {
					t.Errorf("got %+v, want %s: %s, %d used", d, c.reason, c.message, c.used)
				}
			})
		})
	}
}
