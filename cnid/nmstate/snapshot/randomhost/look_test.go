// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package randomhost

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHostLook_Differences_FirstDifferenceNamed(t *testing.T) {
	before := Look{"a", "b", "b", "c"}
	for text, now := range map[string]Look{
		"":                    before,
		"- b | + d\n- b\n+ d": {"a", "b", "d", "c"},
		"- b\n- b":            {"a", "b", "c"},
		"+ e\n+ e":            {"a", "b", "b", "c", "e"},
		"- in another order: a | + in its place: b\n- in another order: a\n+ in its place: b": {"b", "a", "b", "c"},
	} {
		reported := ""
		if err := before.differs(now); err != nil {
			reported = err.Error()
		}
		if diff := cmp.Diff(text, reported); diff != "" {
			t.Error(diff)
		}
	}
}

// TestHostLook_Contents_SettingsWithoutStates: what a look hides is a fault that no random host shows.
func TestHostLook_Contents_SettingsWithoutStates(t *testing.T) {
	for _, c := range []struct{ object, shown, want string }{
		{
			"device", `{"ifname": "eth1", "flags": ["NO-CARRIER", "NOARP", "PROMISC", "ALLMULTI", "MULTICAST", "UP"], "operstate": "DOWN", "linkinfo": {"info_kind": "vlan", "info_data": {"id": 10, "flags": ["REORDER_HDR"], "hello_timer": 3}}}`,
			`device eth1: flags ["NOARP","PROMISC","ALLMULTI","MULTICAST","UP"]
device eth1: ifname "eth1"
device eth1: linkinfo.info_data.flags ["REORDER_HDR"]
device eth1: linkinfo.info_data.id 10
device eth1: linkinfo.info_kind "vlan"`,
		},
		{"address", `{"ifname": "eth1", "addr_info": [{"local": "fe80::1"}, {"local": "fd00::1", "tentative": true, "nodad": true, "valid_life_time": 30}]}`, `address eth1: {"local":"fd00::1","nodad":true,"valid_life_time":"limited"}`},
		{"route", `{"dst": "default", "flags": ["onlink", "linkdown"], "expires": 7, "nexthops": [{"flags": ["dead", "onlink"]}]}`, `route {"dst":"default","expires":"limited","flags":["onlink"],"nexthops":[{"flags":["onlink"]}]}`},
		{"route", `{"dst": "192.0.2.1", "protocol": "kernel", "table": "local"}`, ""},
		{"neighbour", `{"dst": "192.0.2.1", "state": ["PERMANENT"]}`, `neighbour {"dst":"192.0.2.1","state":["PERMANENT"]}`},
		{"next hop", `{"id": 3, "flags": ["linkdown"]}`, `next hop {"flags":[],"id":3}`},
		{"queueing discipline", `{"kind": "htb", "handle": "1:", "refcnt": 3, "options": {"default": "0x10", "direct_packets_stat": 5}}`, `queueing discipline {"handle":"1:","kind":"htb","options":{"default":"0x10"}}`},
		{"queueing discipline", `{"kind": "noqueue", "handle": "0:"}`, ""},
		{"entry", `{"mac": "02:00:00:00:00:01", "state": "static"}`, `entry {"mac":"02:00:00:00:00:01","state":"static"}`},
		{"entry", `{"mac": "02:00:00:00:00:01"}`, ""},
	} {
		var one map[string]any
		if err := json.Unmarshal([]byte(c.shown), &one); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, strings.Join(linesOf(c.object, []map[string]any{one}), "\n")); diff != "" {
			t.Errorf("%s: %s", c.object, diff)
		}
	}
}
