// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

func pool(age int, name string, ranges ...string) *external.Pool {
	row := &external.Pool{Meta: subnet(age, name).Meta, Name: name, AllowedTenants: []string{"blue"}, Ready: true}
	for _, text := range ranges {
		first, last, _ := strings.Cut(text, "-")
		row.Ranges = append(row.Ranges, store.AddrRange{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)})
	}
	return row
}

func TestPrefixes_Range_CoveredExactly(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7-192.0.2.7":                            "192.0.2.7/32",
		"192.0.2.0-192.0.2.255":                          "192.0.2.0/24",
		"192.0.2.1-192.0.2.6":                            "192.0.2.1/32 192.0.2.2/31 192.0.2.4/31 192.0.2.6/32",
		"0.0.0.0-255.255.255.255":                        "0.0.0.0/0",
		"255.255.255.254-255.255.255.255":                "255.255.255.254/31",
		"2001:db8::-2001:db8::4":                         "2001:db8::/126 2001:db8::4/128",
		"ffff::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff": "ffff::/16",
	} {
		var got []string
		for _, prefix := range ipam.Prefixes(pool(1, "p", text).Ranges[0]) {
			got = append(got, prefix.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
}

func TestChooseExternal_Pools_AddressOrReason(t *testing.T) {
	change := func(row *external.Pool, how func(*external.Pool)) *external.Pool {
		how(row)
		return row
	}
	web := store.Holder{Kind: store.HolderService, Namespace: "blue", Name: "web", UID: "web"}
	taken := func(ip, uid string) *external.Address {
		return &external.Address{Meta: store.Meta{UID: ip}, IP: netip.MustParseAddr(ip), Pool: "edge", Holder: store.Holder{Kind: store.HolderService, UID: uid}}
	}
	reporting := func(ip string) *store.Node {
		return &store.Node{Meta: store.Meta{UID: "n"}, Name: "node-1", AllAddresses: ips(ip)}
	}
	edge, six := pool(1, "edge", "192.0.2.16-192.0.2.18"), pool(2, "six", "2001:db8::10-2001:db8::1f")
	resting := &ipam.Resting{}
	resting.Add("", netip.MustParseAddr("192.0.2.16"), epoch)
	for name, c := range map[string]struct {
		rows   []any
		req    ipam.ExternalRequest
		want   string
		reason string
	}{
		"the lowest of the oldest":     {[]any{edge, pool(0, "older", "198.51.100.9-198.51.100.9")}, ipam.ExternalRequest{}, "198.51.100.9", ""},
		"both families of two pools":   {[]any{edge, six}, ipam.ExternalRequest{Families: ipam.Families{V4: true, V6: true}}, "192.0.2.16 2001:db8::10", ""},
		"what is free":                 {[]any{edge, taken("192.0.2.16", "another")}, ipam.ExternalRequest{}, "192.0.2.17", ""},
		"what it has":                  {[]any{edge, taken("192.0.2.18", "web")}, ipam.ExternalRequest{}, "192.0.2.18", ""},
		"the other family to it":       {[]any{edge, six, taken("192.0.2.18", "web")}, ipam.ExternalRequest{Families: ipam.Families{V4: true, V6: true}}, "192.0.2.18 2001:db8::10", ""},
		"what does not rest":           {[]any{edge}, ipam.ExternalRequest{Resting: resting, Now: epoch}, "192.0.2.17", ""},
		"what rests, rather than none": {[]any{pool(1, "edge", "192.0.2.16-192.0.2.16")}, ipam.ExternalRequest{Resting: resting, Now: epoch}, "192.0.2.16", ""},
		"what was faster taken":        {[]any{edge}, ipam.ExternalRequest{Exclude: map[netip.Addr]struct{}{netip.MustParseAddr("192.0.2.16"): {}}}, "192.0.2.17", ""},
		"by number":                    {[]any{edge}, ipam.ExternalRequest{IPs: ips("192.0.2.18")}, "192.0.2.18", ""},
		"by number, held":              {[]any{edge, taken("192.0.2.18", "another")}, ipam.ExternalRequest{IPs: ips("192.0.2.18")}, "", v1alpha1.IPInUseReason},
		"none that a node reports":     {[]any{edge, reporting("192.0.2.16")}, ipam.ExternalRequest{}, "192.0.2.17", ""},
		"by number, a node's":          {[]any{edge, reporting("192.0.2.18")}, ipam.ExternalRequest{IPs: ips("192.0.2.18")}, "", v1alpha1.IPInUseReason},
		"by number, outside":           {[]any{edge}, ipam.ExternalRequest{IPs: ips("192.0.2.19")}, "", v1alpha1.IPOutsidePoolReason},
		"by pool":                      {[]any{edge, pool(2, "named", "198.51.100.9-198.51.100.9")}, ipam.ExternalRequest{Pool: "named"}, "198.51.100.9", ""},
		"by a pool that is not":        {[]any{edge}, ipam.ExternalRequest{Pool: "named"}, "", v1alpha1.ExternalPoolNotFoundReason},
		"without a pool":               {nil, ipam.ExternalRequest{}, "", v1alpha1.ExternalPoolNotFoundReason},
		"of another tenant":            {[]any{edge}, ipam.ExternalRequest{Tenant: "red"}, "", v1alpha1.ExternalPoolNotFoundReason},
		"of everybody":                 {[]any{change(pool(1, "edge", "192.0.2.16-192.0.2.18"), func(p *external.Pool) { p.AllowedTenants = []string{"*"} })}, ipam.ExternalRequest{Tenant: "red"}, "192.0.2.16", ""},
		"of one that goes":             {[]any{change(pool(1, "edge", "192.0.2.16-192.0.2.18"), func(p *external.Pool) { p.Deleting = true })}, ipam.ExternalRequest{}, "", v1alpha1.ExternalPoolNotFoundReason},
		"of one for external IPs":      {[]any{change(pool(1, "edge", "192.0.2.16-192.0.2.18"), func(p *external.Pool) { p.ForExternalIPs = true })}, ipam.ExternalRequest{}, "", v1alpha1.ExternalPoolNotFoundReason},
		"of one that is not ready":     {[]any{change(pool(1, "edge", "192.0.2.16-192.0.2.18"), func(p *external.Pool) { p.Ready = false })}, ipam.ExternalRequest{}, "", v1alpha1.ExternalPoolNotReadyReason},
		"when it is full":              {[]any{pool(1, "edge", "192.0.2.16-192.0.2.16"), taken("192.0.2.16", "another")}, ipam.ExternalRequest{}, "", v1alpha1.ExternalPoolExhaustedReason},
		"of a family that it lacks":    {[]any{edge}, ipam.ExternalRequest{Families: ipam.Families{V6: true}}, "", v1alpha1.ExternalPoolExhaustedReason},
	} {
		t.Run(name, func(t *testing.T) {
			c.req.Holder = web
			if c.req.Tenant == "" {
				c.req.Tenant = "blue"
			}
			if c.req.Families == (ipam.Families{}) {
				c.req.Families = ipam.Families{V4: true}
			}
			var rows []*external.Address
			var err error
			newStore(t, c.rows...).View(func(tx store.ReadTx) { rows, err = ipam.ChooseExternal(tx, c.req) })
			var refusal *ipam.Error
			if (err != nil) != (c.reason != "") || errors.As(err, &refusal) && refusal.Reason != c.reason {
				t.Fatalf("got %v, want %q", err, c.reason)
			}
			var got []string
			for _, row := range rows {
				got = append(got, row.IP.String())
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}
