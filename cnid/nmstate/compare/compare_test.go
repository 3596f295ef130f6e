// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compare_test

import (
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

func TestCompare_Pattern_MatchesAllNamedFields(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	route := document.Route{Destination: "192.0.2.0/24", Interface: "eth0", Address: "198.51.100.1", Source: "192.0.2.9"}
	for want, patterns := range map[bool][]document.Route{
		true:  {{Interface: "eth0"}, {Destination: "192.0.2.7/24"}, {Table: number(0)}, {Table: number(254)}, {Metric: number(0)}, {Source: "192.0.2.9"}},
		false: {{Interface: "eth1"}, {Destination: "192.0.2.0/25"}, {Table: number(9)}, {Metric: number(1)}, {Type: document.Prohibit}, {Address: "198.51.100.2"}, {Source: "192.0.2.8"}},
	} {
		for _, pattern := range patterns {
			if compare.RouteMatches(pattern, route) != want {
				t.Errorf("%+v: %v", pattern, !want)
			}
		}
	}
	rule := document.RouteRule{From: "192.0.2.0/24", Mark: new(uint32(1)), Priority: number(7)}
	for want, patterns := range map[bool][]document.RouteRule{
		true:  {{From: "192.0.2.1/24"}, {Family: "ipv4"}, {Mark: new(uint32(1))}, {Mask: new(uint32(1<<32 - 1))}, {Priority: number(7)}, {Table: number(0)}},
		false: {{From: "192.0.2.0/25"}, {Family: "ipv6"}, {Mark: new(uint32(2))}, {To: "192.0.2.0/24"}, {From: "::/0"}, {Priority: number(8)}, {Table: number(9)}, {IncomingInterface: "eth0"}},
	} {
		for _, pattern := range patterns {
			if compare.RuleMatches(pattern, rule) != want {
				t.Errorf("%+v: %v", pattern, !want)
			}
		}
	}
}

func TestCompare_BondOptions_ReadLikeDriver(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b any
	}{
		{"ad_actor_system", "00:00:5e:00:53:0a", "00:00:5E:00:53:0A"},
		{"ad_actor_system", "00:00:00:00:00:00", nil},
		{"lacp_active", "true", int64(1)},
		{"use_carrier", true, "1"},
		{"use_carrier", "yes", int64(1)},
		{"tlb_dynamic_lb", "off", int64(0)},
		{"miimon", "140", int64(140)},
		{"all_slaves_active", int64(1), "delivered"},
	} {
		if a, b := compare.Option(c.name, c.a), compare.Option(c.name, c.b); a != b {
			t.Errorf("%s: %v is %s, and %v is %s", c.name, c.a, a, c.b, b)
		}
	}
}

// TestOptionWants_DriverInvalidValues_Refused has options with words, with numbers, and
// with texts of another form.
func TestOptionWants_DriverInvalidValues_Refused(t *testing.T) {
	for _, c := range []struct{ option, text, want string }{
		{"lacp_rate", "slow", ""},
		{"lacp_rate", "never", "one of slow, fast"},
		{"resend_igmp", "255", ""},
		{"resend_igmp", "256", "a number, 0 to 255"},
		{"lp_interval", "often", "a number, 1 to 2147483647"},
		{"arp_ip_target", "192.0.2.1,192.0.2.2", ""},
		{"arp_ip_target", "2001:db8::1", "addresses of IPv4, with commas between"},
		{"ad_actor_system", "01:00:00:00:00:01", "no address of a group"},
	} {
		if got := compare.OptionWants(c.option, c.text); got != c.want {
			t.Errorf("%s %s wants %q, want %q", c.option, c.text, got, c.want)
		}
	}
}
