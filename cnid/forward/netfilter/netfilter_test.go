// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

func testState() ruleset.State {
	return ruleset.State{
		Shadows:       []netip.Prefix{netip.MustParsePrefix("169.254.64.0/18"), netip.MustParsePrefix("fd41:6c69:6f74:6801::/64")},
		NodeShadows:   []netip.Addr{netip.MustParseAddr("169.254.64.1"), netip.MustParseAddr("fd41:6c69:6f74:6801::1")},
		DefaultVPC:    []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd10:244::/48")},
		Addresses:     []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")},
		TunnelPort:    4789,
		PodGroup:      hostdev.PodGroup,
		PodKinds:      hostdev.PodKinds,
		NodeDevice:    "alioth_node",
		SealedDevices: []string{"alioth_vxlan", "alioth_nodep"},
		MarkMask:      0x30000000, SharedMark: 0x10000000, EgressMark: 0x20000000, NodeMark: 0x30000000,
		OpeningMark: 0x10000000, TunneledMark: 0x30000000,
		FlowsPerShadow: 4,
	}
}

// handles identifies the rules of the table that don't change with pods' ports; a rule
// made again has another.
func handles(t *testing.T) []uint64 {
	t.Helper()
	var list []uint64
	conn := &nftables.Conn{}
	for _, c := range chains(testState()) {
		if c.variable {
			continue
		}
		rules, err := conn.GetRules(table(), &nftables.Chain{Name: c.name, Table: table()})
		if err != nil {
			t.Fatalf("list rules of %s: %v", c.name, err)
		}
		for _, r := range rules {
			list = append(list, r.Handle)
		}
	}
	return list
}

func apply(t *testing.T, s ruleset.State) {
	t.Helper()
	if _, err := Apply(s); err != nil {
		t.Fatalf("Apply: %v", err)
	}
}

func TestNetfilterApply_SameState_TableUntouched(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		apply(t, testState())
		before := handles(t)
		again := testState()
		again.Shadows[0], again.Shadows[1] = again.Shadows[1], again.Shadows[0]
		apply(t, again)
		if diff := cmp.Diff(before, handles(t)); diff != "" {
			t.Errorf("rule handles changed (-before +after):\n%s", diff)
		}
		return nil
	})
}

func TestNetfilterApply_ForeignChange_Repaired(t *testing.T) {
	damages := map[string]func(conn *nftables.Conn){
		"a rule deleted": func(conn *nftables.Conn) {
			rules, _ := conn.GetRules(table(), &nftables.Chain{Name: "input", Table: table()})
			_ = conn.DelRule(rules[len(rules)-1])
		},
		"a rule added": func(conn *nftables.Conn) {
			conn.InsertRule(&nftables.Rule{
				Table: table(), Chain: &nftables.Chain{Name: "input", Table: table()},
				Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}},
			})
		},
		"a chain added": func(conn *nftables.Conn) {
			conn.AddChain(&nftables.Chain{
				Name: "another", Table: table(), Type: nftables.ChainTypeFilter,
				Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
			})
		},
		"a chain's policy changed": func(conn *nftables.Conn) {
			drop := nftables.ChainPolicyDrop
			conn.AddChain(&nftables.Chain{
				Name: "forward", Table: table(), Type: nftables.ChainTypeFilter, Policy: &drop,
				Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
			})
		},
		"the table flushed": func(conn *nftables.Conn) { conn.FlushTable(table()) },
		"the table deleted": func(conn *nftables.Conn) { conn.DelTable(table()) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			testnet.In(t, testnet.New(t), func() error {
				apply(t, testState())
				want := len(handles(t))
				conn := &nftables.Conn{}
				damage(conn)
				if err := conn.Flush(); err != nil {
					return err
				}
				for _, want := range []bool{true, false} {
					if held, err := Holds(testState()); err != nil || held == want {
						t.Errorf("Holds = %v, %v; want %v", held, err, !want)
					}
					if replaced, err := Apply(testState()); err != nil || replaced != want {
						t.Errorf("Apply = %v, %v; want %v", replaced, err, want)
					}
				}
				if got := len(handles(t)); got != want {
					t.Errorf("the table has %d rules after the repair, want %d", got, want)
				}
				return nil
			})
		})
	}
}

func TestNetfilterTable_Dormant_Woken(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		apply(t, testState())
		if err := testnet.NFT("table inet alioth { flags dormant; }"); err != nil {
			return err
		}
		for _, want := range []bool{true, false} {
			if replaced, err := Apply(testState()); err != nil || replaced != want {
				t.Errorf("Apply = %v, %v; want %v", replaced, err, want)
			}
		}
		return nil
	})
}

func TestNetfilterApply_ChangedState_TableReplaced(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		apply(t, testState())
		before := handles(t)
		changed := testState()
		changed.DefaultVPC = nil
		apply(t, changed)
		if after := handles(t); len(after) != len(before)-2 {
			t.Errorf("the table has %d rules without a default VPC, want %d", len(after), len(before)-2)
		}
		return nil
	})
}

func TestNetfilterRemove_SecondTime_NoError(t *testing.T) {
	testnet.In(t, testnet.New(t), func() error {
		apply(t, testState())
		for range 2 {
			if err := Remove(); err != nil {
				t.Fatalf("Remove: %v", err)
			}
		}
		tables, err := (&nftables.Conn{}).ListTables()
		if err != nil {
			return err
		}
		if len(tables) != 0 {
			t.Errorf("%d tables are left", len(tables))
		}
		return nil
	})
}

func TestApply_InvalidState_Refused(t *testing.T) {
	cases := map[string]func(*ruleset.State){
		"no shadow range":        func(s *ruleset.State) { s.Shadows = nil },
		"a range with host bits": func(s *ruleset.State) { s.DefaultVPC = []netip.Prefix{netip.MustParsePrefix("10.244.0.1/16")} },
		"no shadow of its own":   func(s *ruleset.State) { s.NodeShadows = s.NodeShadows[:1] },
		"a port 0": func(s *ruleset.State) {
			s.HostPorts = []ruleset.HostPort{{Protocol: 6, HostPort: 80, Shadow: netip.MustParseAddr("169.254.64.5")}}
		},
		"a protocol that has no ports": func(s *ruleset.State) {
			s.HostPorts = []ruleset.HostPort{{Protocol: 1, HostPort: 80, Port: 80, Shadow: netip.MustParseAddr("169.254.64.5")}}
		},
		"no tunnel port":         func(s *ruleset.State) { s.TunnelPort = 0 },
		"one mark for two":       func(s *ruleset.State) { s.EgressMark = s.SharedMark },
		"no mark for nodes":      func(s *ruleset.State) { s.NodeMark = 0 },
		"a mark outside of mask": func(s *ruleset.State) { s.MarkMask = 0x20000000 },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			s := testState()
			change(&s)
			if _, err := Apply(s); err == nil {
				t.Error("Apply accepted it")
			}
		})
	}
}
